"""StepWriter: writes the steps of a guard program. In: encoded guards, in the order in which they
are checked. Out: loads and checks, each in its section; an object that several guards need is
loaded once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from . import source as s
from .encoded import Encoded
from .guard import Guard, Kind
from .guard_order import EncodedGuards, may_be_any
from .kinds import kind_of
from .kinds.containers import empty_items
from .section import CONTAINER_KINDS, FUNCTION_FIELDS, PROPERTY_FIELDS, Section, Sections
from .source import Source
from .steps import GuardCheck, Load, Step


class StepWriter:
    """Appends steps to the list of their section; each source gets one temp. placed: the sections
    of guards, by their ids. share: whether a path is loaded once."""

    def __init__(
        self, sections: Sections, encoded: EncodedGuards, placed: Mapping[int, Section], share: bool
    ) -> None:
        self.sections = sections
        self.encoded = encoded
        self.placed = placed
        self.share = share
        self.temps: dict[Source, int] = {}
        self._lists: dict[Section, list[Step]] = {section: [] for section in Section}
        self._count = 0

    def steps(self) -> list[Step]:
        return [step for section in Section for step in self._lists[section]]

    def check(self, guard: Guard) -> None:
        """Adds the check of a guard, and the loads of what it compares, to the guard's section."""
        kind = kind_of(guard)
        encoded = self.encoded[id(guard)]
        op, subjects = encoded.op, kind.subjects(guard)
        if guard.kind is Kind.TORCH_STATE:
            subjects = ()
        elif guard.kind in CONTAINER_KINDS and isinstance(guard.source, s.InstanceDict):
            op, subjects = f"INSTANCE_{op}", (guard.source.of,)
        section = self.placed[id(guard)]
        if guard.kind is Kind.DISTINCT:
            self._distinct(guard, subjects, section)
            return
        if guard.kind is Kind.EMPTY_ITEMS:
            self._empty_items(guard, section)
            return
        uses = tuple([self.load(source, guard, section) for source in subjects])
        for item in guard.expected if guard.kind is Kind.ALL_ABSENT else (encoded.object,):
            self._lists[section].append(
                GuardCheck(op, uses, guard, item, encoded.number, encoded.runs_python, section)
            )

    def _empty_items(self, guard: Guard, section: Section) -> None:
        """Adds a check of each item, which then is watched like any container."""
        steps, source = self._lists[section], guard.source
        if section is not Section.STABLE or not isinstance(source, s.InstanceDict):
            for item in empty_items(guard):
                uses = (self.load(item, guard, section),)
                steps.append(GuardCheck("LENGTH", uses, guard, section=section))
            return
        # without load()'s search for earlier loads of these items: a model has thousands of them,
        # and no other guard is on one
        of = (self.load(source.of, guard, Section.FIRST),)
        for item in empty_items(guard):
            dst = self._append_load(Encoded("INSTANCE_ITEM", item.key), of, item, guard, section)
            steps.append(GuardCheck("LENGTH", (dst,), guard, section=section))

    def _distinct(self, guard: Guard, subjects: Sequence[Source], section: Section) -> None:
        """Adds checks that objects are distinct. The first `number` of them are compared with all
        others, stable ones only once."""
        stable = [source for source in subjects if self.sections.of(source) is Section.STABLE]
        fresh = [source for source in subjects if self.sections.of(source) is not Section.STABLE]
        if len(stable) > 1:
            uses = tuple(self.load(source, guard, Section.STABLE) for source in stable)
            self._lists[Section.STABLE].append(
                GuardCheck("DISTINCT", uses, guard, None, len(stable), False, Section.STABLE)
            )
        specs = [self.sections.tensor_at(source) for source in fresh]
        same = [source for source in stable if may_be_any(self.sections.tensor_at(source), specs)]
        if len(fresh) > 1 or same:
            uses = tuple(self.load(source, guard, section) for source in (*fresh, *same))
            self._lists[section].append(
                GuardCheck("DISTINCT", uses, guard, None, len(fresh), False, section)
            )

    def load(self, source: Source, guard: Guard | None, wanted: Section = Section.LAST) -> int:
        """The temp of a source for a step of the section `wanted`. What is not stable is loaded in
        that section, too, or earlier."""
        known = self.temps.get(source) if self.share or source in self.sections.early else None
        if known is not None:
            return known
        section = self.sections.of(source)
        if (
            section is Section.FIRST
            and wanted is Section.LAST
            and source not in self.sections.early
        ):
            section = Section.LAST
        encoded, operands = self._encode(source)
        earliest = Section.FIRST if section is Section.STABLE else section
        uses = tuple([self.load(operand, guard, earliest) for operand in operands])
        dst = self.temps[source] = self._append_load(encoded, uses, source, guard, section)
        return dst

    def _append_load(
        self,
        encoded: Encoded,
        uses: tuple[int, ...],
        source: Source,
        guard: Guard | None,
        section: Section,
    ) -> int:
        """Adds a load to a section; the temp that it sets."""
        dst = self._count
        self._count += 1
        self._lists[section].append(
            Load(
                encoded.op,
                dst,
                uses,
                source,
                encoded.object,
                encoded.number,
                runs_python=encoded.runs_python,
                guard=guard,
                section=section,
            )
        )
        return dst

    def _encode(self, source: Source) -> tuple[Encoded, tuple[Source, ...]]:
        """The native form, and the sources of the objects that it takes."""
        if (
            isinstance(source, s.DictItem)
            and isinstance(source.of, s.InstanceDict)
            and type(source.key) is str
        ):
            return Encoded("INSTANCE_ITEM", source.key), (source.of.of,)
        if known := self.sections.known_key(source):
            return Encoded("CONSTANT", *known), ()
        name: str = getattr(source, "attr", "")
        if self.sections.is_function_field(source):
            return Encoded("FUNCTION_FIELD", name, FUNCTION_FIELDS.index(name)), source.operands
        if self.sections.is_property_field(source):
            return Encoded("PROPERTY_FIELD", name, PROPERTY_FIELDS.index(name)), source.operands
        return source.encode(), source.operands
