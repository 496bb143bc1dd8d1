"""GuardProgram: guards as one flat list of loads and checks. Common paths are loaded once; cheap
checks, and those likely to fail, come first. In: guards, and sources whose objects the caller needs
(`lifted`). Out: steps, which print, and which native/ runs."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from types import CodeType
from typing import Any

from . import source as s
from .encoded import Encoded
from .failure import Failure
from .guard import Guard, Kind, TensorSpec
from .kinds import kind_of
from .kinds.tensor import exclude_each_other
from .lifetimes import Places, allocate, mark_kept
from .native import (
    Program,
    watching,  # noqa: F401 - it finds out how changes can be noticed here
)
from .reference import explain
from .section import (
    CONTAINER_KINDS,
    FUNCTION_FIELDS,
    PROPERTY_FIELDS,
    Section,
    Sections,
    paths_of,
    prefixes,
)
from .source import FrameView, Source


@dataclass(slots=True)
class Load:
    """temps[dst] = op(temps[uses], object or number). `keep`: hold the result strongly to the end
    of the run. Temps and `keep` are settled when all steps are known (lifetimes.py)."""

    op: str
    dst: int
    uses: tuple[int, ...]  # () for roots
    source: Source
    object: Any = None
    number: int = 0
    keep: bool = False
    runs_python: bool = False
    guard: Guard | None = None  # who asked first; None for a lifted object
    section: Section = Section.LAST

    def __str__(self) -> str:
        of = ", ".join(f"t{temp}" for temp in self.uses)
        what = (
            repr(self.source.key)
            if isinstance(self.source, s.DictItem)
            else ARGUMENTS.get(self.op, plain_load)(self)
        )
        step = f"t{self.dst} = {self.op.lower()}({', '.join(filter(None, (of, what)))})"
        return f"{step}{' kept' if self.keep else ''}".ljust(44) + f"# {self.source.name}"


@dataclass(slots=True)
class GuardCheck:
    """Fail unless op holds for temps[uses]."""

    op: str
    uses: tuple[int, ...]
    guard: Guard
    object: Any = None
    number: int = 0
    runs_python: bool = False
    section: Section = Section.LAST

    def __str__(self) -> str:
        of = ", ".join(f"t{temp}" for temp in self.uses)
        line = f"  [{self.guard.line}]" if self.guard.line else ""
        return (
            f"check {self.op.lower()}({of})".ljust(44)
            + f"# {kind_of(self.guard).expression(self.guard)}{line}"
        )


Step = Load | GuardCheck


@dataclass(frozen=True, eq=False)
class GuardProgram:
    """The steps, and what they came from: merged guards in the order they are checked."""

    guards: tuple[Guard, ...]
    lifted: tuple[Source, ...]
    steps: tuple[Step, ...] = field(repr=False)
    places: Places = field(repr=False)

    @classmethod
    def build(
        cls, guards: Sequence[Guard], lifted: Sequence[Source] = (), share: bool = True
    ) -> GuardProgram:
        """Builds the program. `share=False` loads every path from its root, for the benchmark that
        measures the gain of sharing."""
        merged = merge(guards, lifted)
        sections = Sections(merged, lifted)
        encoded = {id(guard): kind_of(guard).encode(guard) for guard in merged}
        ordered = by_section(sort_guards(merged, encoded), sections, encoded)
        writer = StepWriter(sections, encoded, share)
        for guard in ordered:
            writer.check(guard)
        lifted_temps = [writer.load(source, None) for source in lifted]
        anchors = [writer.temps[source] for source in sections.anchors if source in writer.temps]
        steps = writer.steps()
        mark_kept(steps, [*lifted_temps, *anchors])
        places = allocate(steps, lifted_temps, anchors)
        return cls(tuple(ordered), tuple(lifted), tuple(steps), places)

    def native(self) -> Program:
        """The C evaluator of these steps; made once."""
        return self._native

    @cached_property
    def _native(self) -> Program:
        stable, held, last = (
            sum(step.section < section for step in self.steps)
            for section in (Section.STABLE, Section.HELD, Section.LAST)
        )
        places = self.places
        return Program(
            tuple(map(native_step, self.steps)),
            places.lifted,
            places.count,
            stable,
            held,
            last,
            places.fresh,
            places.anchors,
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
                f"      return {', '.join(f't{temp}' for temp in self.places.lifted)}".ljust(50)
                + f"# {', '.join(source.name for source in self.lifted)}"
            )
        return "\n".join(lines)

    def expression(self) -> str:
        """The checks as one Python expression over the names of the sources."""
        return " and ".join(kind_of(guard).expression(guard) for guard in self.guards) or "True"


# ---- merging
# --------------------------------------------------------------------------------------------------


def merge(guards: Iterable[Guard], lifted: Iterable[Source]) -> list[Guard]:
    """Removes duplicates, and guards that another guard or a load implies."""
    unique: dict[Any, Guard] = {}
    for guard in guards:
        kind = kind_of(guard)
        unique.setdefault((kind.subjects(guard), guard.kind, kind.key(guard)), guard)
    by_source: dict[Source, list[Guard]] = defaultdict(list)
    for guard in unique.values():
        by_source[guard.source].append(guard)
    kept = [
        guard
        for guard in unique.values()
        if not any(
            other is not guard and kind_of(other).implies(other, guard)
            for other in by_source[guard.source]
        )
        and not (
            isinstance(guard.source, s.AttrSource)
            and any(map(never_changes, by_source[guard.source.of]))
        )
        and not (
            isinstance(guard.source, s.DictKey)
            and any(implies_key(other, guard) for other in by_source[guard.source.of])
        )
    ]
    if not any(map(source_of_implied_load, kept)):
        return kept
    paths = paths_of(kept, lifted)
    return [guard for guard in kept if not prefixes_to_load(guard, paths)]


def never_changes(guard: Guard) -> bool:
    """Whether it names an object with immutable attributes, so that guards on them were decided
    when it was made."""
    return guard.kind is Kind.IS and type(guard.expected) is CodeType


def implies_key(keys: Guard, guard: Guard) -> bool:
    """Whether `keys`, a guard on a dictionary, implies `guard`, which is about one of its keys."""
    assert isinstance(guard.source, s.DictKey)
    index = guard.source.index
    return (
        keys.kind is Kind.KEYS
        and guard.kind is Kind.IS
        and index < len(keys.expected)
        and keys.expected[index] is guard.expected
    )


def source_of_implied_load(guard: Guard) -> Source | None:
    """The source whose load can only succeed if the guard holds."""
    if guard.kind is Kind.PRESENT:
        return s.DictItem(guard.source, guard.expected)
    return None


def prefixes_to_load(guard: Guard, paths: set[Source]) -> bool:
    load = source_of_implied_load(guard)
    return load is not None and load in paths


# ---- ordering
# --------------------------------------------------------------------------------------------------


# What C checks for each guard, by the guard's id; encoding one takes as long as sorting it.
EncodedGuards = Mapping[int, Encoded]


def by_section(guards: Sequence[Guard], sections: Sections, encoded: EncodedGuards) -> list[Guard]:
    """Sorts guards by their sections. Held tensors with the same spec come together, so that they
    are compared in one go."""
    ranks: dict[Any, int] = {}

    def rank(guard: Guard) -> tuple[Section, int]:
        section = sections.of_guard(guard, runs_python(guard, encoded))
        return section, ranks.setdefault(
            guard.expected, len(ranks)
        ) if section is Section.HELD else 0

    return sorted(guards, key=rank)


def sort_guards(guards: Sequence[Guard], encoded: EncodedGuards) -> list[Guard]:
    """Sorts guards by rank and cost. Guards on a path come before those on longer paths, so that no
    getattr runs on an object of an unexpected type."""
    costs: dict[Source, int] = {}
    ranks = {id(guard): rank(guard, costs, encoded) for guard in guards}
    queue = sorted(guards, key=lambda guard: ranks[id(guard)])  # stable
    quiet: dict[Source, list[Guard]] = defaultdict(list)
    for guard in queue:
        if ranks[id(guard)][0] != PYTHON and len(kind_of(guard).subjects(guard)) == 1:
            quiet[guard.source].append(guard)
    done: dict[int, Guard] = {}
    # paths whose quiet guards are in place, as are those on the way to them
    settled: set[Source] = set()

    def settle_way_to(source: Source) -> None:
        new = list(itertools.takewhile(lambda prefix: prefix not in settled, prefixes(source)))
        settled.update(new)
        for step in (*reversed(new), source):
            for key in step.operands[1:]:
                settle_way_to(key)
                add_quiet(key)
            if step is not source:
                add_quiet(step)

    def add_quiet(source: Source) -> None:
        for guard in quiet[source]:
            done.setdefault(id(guard), guard)

    for guard in queue:
        for source in kind_of(guard).subjects(guard):
            settle_way_to(source)
        done.setdefault(id(guard), guard)
    return list(done.values())


PYTHON = 3  # the rank of guards that run Python


def rank(guard: Guard, costs: dict[Source, int], encoded: EncodedGuards) -> tuple[int, int]:
    """torch's state first: it needs no load, so nothing must be held while its slow path runs. Then
    arguments, then the rest, then what runs Python; the cheaper first."""
    subjects = kind_of(guard).subjects(guard)
    cost = kind_of(guard).cost + sum(load_cost(end, costs) for end in subjects)
    if guard.kind is Kind.TORCH_STATE:
        return 0, cost
    if runs_python(guard, encoded):
        return PYTHON, cost
    return (1 if all(map(is_argument, subjects)) else 2), cost


def load_cost(source: Source, known: dict[Source, int]) -> int:
    """The cost of all loads of a source."""
    cost = known.get(source)
    if cost is None:
        cost = source.cost + sum([load_cost(one, known) for one in source.operands])
        known[source] = cost
    return cost


def runs_python(guard: Guard, encoded: EncodedGuards) -> bool:
    return guard.kind is not Kind.TORCH_STATE and encoded[id(guard)].runs_python


def is_argument(source: Source) -> bool:
    if isinstance(source, s.SequenceItem | s.DictItem):
        return is_argument(source.of)
    return isinstance(source, s.SlotSource)


def may_be_any(spec: TensorSpec | None, others: Iterable[TensorSpec | None]) -> bool:
    """Whether a tensor that is checked against the spec may be one of the others; None: compared
    with none."""
    return any(
        spec is None or other is None or not exclude_each_other(spec, other) for other in others
    )


# ---- writing steps
# --------------------------------------------------------------------------------------------------


class StepWriter:
    """Appends steps, a list a section; each source gets one temp."""

    def __init__(self, sections: Sections, encoded: EncodedGuards, share: bool) -> None:
        self.sections = sections
        self.encoded = encoded
        self.share = share
        self.temps: dict[Source, int] = {}
        self._lists: dict[Section, list[Step]] = {section: [] for section in Section}
        self._count = 0

    def steps(self) -> list[Step]:
        return [step for section in Section for step in self._lists[section]]

    def check(self, guard: Guard) -> None:
        kind = kind_of(guard)
        encoded = self.encoded[id(guard)]
        op, subjects = encoded.op, kind.subjects(guard)
        if guard.kind is Kind.TORCH_STATE:
            subjects = ()
        elif guard.kind in CONTAINER_KINDS and isinstance(guard.source, s.InstanceDict):
            op, subjects = f"INSTANCE_{op}", (guard.source.of,)
        section = self.sections.of_guard(guard, encoded.runs_python)
        if guard.kind is Kind.DISTINCT:
            self._distinct(guard, subjects, section)
            return
        uses = tuple(self.load(source, guard, section) for source in subjects)
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


def plain_load(load: Load) -> str:
    return repr(load.object) if load.object is not None else ""


def load_with_number(load: Load) -> str:
    return str(load.number)


# How a load prints its argument, where it is not the object.
ARGUMENTS: dict[str, Callable[[Load], str]] = {
    **dict.fromkeys(
        ("SLOT", "CLOSURE", "MRO_ITEM", "DICT_KEY", "SEQUENCE_ITEM", "ITERATOR_ITEM"),
        load_with_number,
    ),
    "CONSTANT": lambda load: load.source.name,
    "CALL": lambda load: (
        ", ".join(map(str, load.object.keywords.values()))
        if isinstance(load.object, partial)
        else ""
    ),
    **dict.fromkeys(("TENSOR_SIZE", "TENSOR_STRIDE", "TENSOR_STORAGE_OFFSET"), load_with_number),
}


def native_step(step: Step) -> tuple[str, int, tuple[int, ...], bool, Any, int]:
    """(op, dst, uses, keep, object, number)."""
    dst, keep = (step.dst, step.keep) if isinstance(step, Load) else (0, False)
    return step.op, dst, step.uses, keep, step.object, step.number
