"""Which guards a program checks, and in which order. In: all guards of an entry. Out: those that no
other one implies; cheap ones, and those likely to fail, come first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from types import CodeType
from typing import Any

from . import source as s
from .encoded import Encoded
from .guard import Guard, Kind, TensorSpec
from .kinds import kind_of
from .kinds.tensor import exclude_each_other
from .section import Section, paths_of
from .source import Source


def merge(guards: Iterable[Guard], lifted: Iterable[Source]) -> list[Guard]:
    """Removes duplicates, and guards that another guard or a load implies."""
    unique: dict[Any, Guard] = {}
    for guard in guards:
        kind = kind_of(guard)
        unique.setdefault((kind.subjects(guard), guard.kind, kind.key(guard)), guard)
    by_source: dict[Source, list[Guard]] = defaultdict(list)
    stronger: dict[Source, list[Guard]] = defaultdict(list)  # those that may imply others
    for guard in unique.values():
        by_source[guard.source].append(guard)
        if kind_of(guard).implies_others:
            stronger[guard.source].append(guard)
    kept = [
        guard
        for guard in unique.values()
        if not is_implied(guard, stronger.get(guard.source, ()))
        and not is_decided_by_base(guard, by_source)
    ]
    if not any(map(source_of_implied_load, kept)):
        return kept
    paths = paths_of(kept, lifted)
    return [guard for guard in kept if not prefixes_to_load(guard, paths)]


def is_implied(guard: Guard, others: Iterable[Guard]) -> bool:
    """Whether one of the other guards on its source implies a guard."""
    for other in others:
        if other is not guard and kind_of(other).implies(other, guard):
            return True
    return False


def is_decided_by_base(guard: Guard, by_source: Mapping[Source, Sequence[Guard]]) -> bool:
    """Whether a guard on what an object holds follows from one on the object."""
    source = guard.source
    if isinstance(source, s.AttrSource):
        return any(map(never_changes, by_source.get(source.of, ())))
    if isinstance(source, s.DictKey):
        return any(implies_key(other, guard) for other in by_source.get(source.of, ()))
    return False


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


# What C checks for each guard, by the guard's id; encoding one takes as long as sorting it.
EncodedGuards = Mapping[int, Encoded]


def by_section(guards: Sequence[Guard], placed: Mapping[int, Section]) -> list[Guard]:
    """Sorts guards by their sections, which `placed` has by their ids. Held tensors with the same
    spec come together, so that they are compared in one go."""
    ranks: dict[Any, int] = {}

    def rank(guard: Guard) -> tuple[Section, int]:
        section = placed[id(guard)]
        return section, ranks.setdefault(
            guard.expected, len(ranks)
        ) if section is Section.HELD else 0

    return sorted(guards, key=rank)


def sort_guards(guards: Sequence[Guard], encoded: EncodedGuards) -> list[Guard]:
    """Sorts guards by rank and cost. Guards on a path come before those on longer paths, so that no
    getattr runs on an object of an unexpected type."""
    subjects = [kind_of(guard).subjects(guard) for guard in guards]
    ranked = [
        (*rank(guard, subjects[position], encoded), position)
        for position, guard in enumerate(guards)
    ]
    ranked.sort()  # those of one rank and cost stay in order
    pure: dict[Source, list[Guard]] = defaultdict(list)
    for first, _, position in ranked:
        if first != PYTHON and len(subjects[position]) == 1:
            pure[guards[position].source].append(guards[position])
    order = GuardOrder(pure)
    for _, _, position in ranked:
        order.add(guards[position], subjects[position])
    return list(order.placed.values())


class GuardOrder:
    """Puts guards in order, each after those on the way to its object. `pure`: by their paths,
    guards that run no Python. `placed`: the guards so far, by their ids."""

    def __init__(self, pure: Mapping[Source, list[Guard]]) -> None:
        self.pure = pure
        self.placed: dict[int, Guard] = {}
        # paths whose pure guards are in place, as are those on the way to them
        self.settled: set[Source] = set()

    def add(self, guard: Guard, subjects: Iterable[Source]) -> None:
        """Places a guard on these paths."""
        for source in subjects:
            self._settle_way_to(source)
        self.placed.setdefault(id(guard), guard)

    def _settle_way_to(self, source: Source) -> None:
        """Places the pure guards on shorter paths that lead to an object, and on those of the keys
        on the way."""
        if source.base in self.settled and len(source.operands) == 1:
            return
        new = list(takewhile(lambda prefix: prefix not in self.settled, prefixes(source)))
        self.settled.update(new)
        for step in (*reversed(new), source):
            for key in step.operands[1:]:
                self._settle_way_to(key)
                self._add_pure(key)
            if step is not source:
                self._add_pure(step)

    def _add_pure(self, source: Source) -> None:
        for guard in self.pure.get(source, ()):
            self.placed.setdefault(id(guard), guard)


def prefixes(source: Source) -> Iterator[Source]:
    """The shorter paths that a path goes through, the longest first."""
    prefix = source.base
    while prefix is not None:
        yield prefix
        prefix = prefix.base


PYTHON = 3  # the rank of guards that run Python


def rank(guard: Guard, subjects: Sequence[Source], encoded: EncodedGuards) -> tuple[int, int]:
    """torch's state first: it needs no load, so nothing must be held while its slow path runs. Then
    arguments, then the rest, then what runs Python; the cheaper first."""
    cost = kind_of(guard).cost + sum([end.way_cost for end in subjects])
    if guard.kind is Kind.TORCH_STATE:
        return 0, cost
    if runs_python(guard, encoded):
        return PYTHON, cost
    return (1 if all(map(is_argument, subjects)) else 2), cost


def runs_python(guard: Guard, encoded: EncodedGuards) -> bool:
    return guard.kind is not Kind.TORCH_STATE and encoded[id(guard)].runs_python


def is_argument(source: Source) -> bool:
    while isinstance(source, (s.SequenceItem, s.DictItem)):
        source = source.of
    return isinstance(source, s.SlotSource)


def may_be_any(spec: TensorSpec | None, others: Iterable[TensorSpec | None]) -> bool:
    """Whether a tensor that is checked against the spec may be one of the others; None: compared
    with none."""
    return any(
        spec is None or other is None or not exclude_each_other(spec, other) for other in others
    )
