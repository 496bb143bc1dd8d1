"""GuardProgram: guards as one flat list of loads and checks. Common paths are loaded once; cheap
checks, and those likely to fail, come first. In: guards, and sources whose objects the caller needs
(`lifted`). Out: steps, which print, and which native/ runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from . import source as s
from .encoded import Encoded
from .failure import Failure
from .guard import Guard, Kind
from .guard_order import EncodedGuards, by_section, may_be_any, merge, sort_guards
from .kinds import kind_of
from .lifetimes import TempAllocation, allocate_temps, mark_kept
from .native import (
    Program,
    watching,  # noqa: F401 - it finds out how changes can be noticed here
)
from .reference import explain
from .section import CONTAINER_KINDS, FUNCTION_FIELDS, PROPERTY_FIELDS, Section, Sections
from .source import FrameView, Source
from .steps import GuardCheck, Load, Step, native_step


@dataclass(frozen=True, eq=False)
class GuardProgram:
    """The steps, and what they came from: merged guards in the order they are checked."""

    guards: tuple[Guard, ...]
    lifted: tuple[Source, ...]
    steps: tuple[Step, ...] = field(repr=False)
    temps: TempAllocation = field(repr=False)

    @classmethod
    def build(
        cls, guards: Sequence[Guard], lifted: Sequence[Source] = (), share: bool = True
    ) -> GuardProgram:
        """Builds the program. `share=False` loads every path from its root, for the benchmark that
        measures the gain of sharing."""
        merged = merge(guards, lifted)
        sections = Sections(merged, lifted)
        encoded = {id(guard): kind_of(guard).encode(guard) for guard in merged}
        placed = {
            id(guard): sections.of_guard(guard, encoded[id(guard)].runs_python) for guard in merged
        }
        ordered = by_section(sort_guards(merged, encoded), placed)
        writer = StepWriter(sections, encoded, placed, share)
        for guard in ordered:
            writer.check(guard)
        lifted_temps = [writer.load(source, None) for source in lifted]
        anchors = [writer.temps[source] for source in sections.anchors if source in writer.temps]
        steps = writer.steps()
        mark_kept(steps, [*lifted_temps, *anchors])
        temps = allocate_temps(steps, lifted_temps, anchors)
        return cls(tuple(ordered), tuple(lifted), tuple(steps), temps)

    def native(self) -> Program:
        """The C evaluator of these steps; made once."""
        return self._native

    @cached_property
    def _native(self) -> Program:
        stable, held, last = (
            sum(step.section < section for step in self.steps)
            for section in (Section.STABLE, Section.HELD, Section.LAST)
        )
        temps = self.temps
        return Program(
            tuple(map(native_step, self.steps)),
            temps.lifted,
            temps.count,
            stable,
            held,
            last,
            temps.fresh,
            temps.anchors,
        )

    @property
    def watched_guards(self) -> frozenset[int]:
        """The positions of the guards that are skipped while nothing they read has changed."""
        seldom = {
            id(step.guard)
            for step in self.steps
            if isinstance(step, GuardCheck) and step.section is Section.STABLE
        }
        return frozenset(number for number, guard in enumerate(self.guards) if id(guard) in seldom)

    def guard_of(self, step: int) -> Guard | None:
        """The guard that a step belongs to; None for a lifted object's, and for step -1."""
        return None if step < 0 else self.steps[step].guard

    def failure(self, step: int, frame: FrameView) -> Failure | None:
        """The reason, in words, why the evaluator stopped at this step for this frame; None for
        step -1."""
        if step < 0:
            return None
        failed = self.steps[step]
        if failed.guard is None:
            return Failure(None, failed.source.name, "found", "gone")
        return explain(failed.guard, frame)

    def __str__(self) -> str:
        """A line a step; `=` marks those that are skipped while nothing they looked at has
        changed."""
        lines = [
            f"{number:4}{'=' if step.section is Section.STABLE else ' '} {step}"
            for number, step in enumerate(self.steps)
        ]
        if self.lifted:
            lines.append(
                f"      return {', '.join(f't{temp}' for temp in self.temps.lifted)}".ljust(50)
                + f"# {', '.join(source.name for source in self.lifted)}"
            )
        return "\n".join(lines)

    def expression(self) -> str:
        """The checks as one Python expression over the names of the sources."""
        return " and ".join(kind_of(guard).expression(guard) for guard in self.guards) or "True"


# ---- merging
# --------------------------------------------------------------------------------------------------


class StepWriter:
    """Appends steps, a list a section; each source gets one temp."""

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
        uses = tuple([self.load(source, guard, section) for source in subjects])
        self._lists[section].append(
            GuardCheck(
                op, uses, guard, encoded.object, encoded.number, encoded.runs_python, section
            )
        )

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
        dst = self.temps[source] = self._count
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
