"""MovedGuards: what a capture knows of all that is below a module, asked of another module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ....guards.guard import Guard, Kind
from ....guards.guard_log import GuardLog
from ....guards.kinds import kind_of
from ....guards.source import Source, TypeOf
from ...values.base import Value
from ...values.functions.cell import CellValue
from ...values.functions.function import FunctionValue
from ...values.objects.nn_module import ModuleValue
from ..fake_tensors.fakes_by_metadata import is_described_by_guard
from ..graph_inputs import GraphInput
from ..trace import Trace
from .moved_paths import CannotMove, MovedPaths, PathsBelow

UNREMEMBERED = FunctionValue | CellValue  # each path to one has a value of its own
KINDS = frozenset({
    Kind.TYPE, Kind.IS, Kind.EQUALS, Kind.LENGTH, Kind.KEYS, Kind.ABSENT, Kind.PRESENT, Kind.TENSOR,
    Kind.EMPTY_ITEMS, Kind.ALL_ABSENT,
})  # fmt: skip


class MovedGuards:
    """All guards of a capture on what is below a module, whoever asked. `objects`: the objects
    below it that have a value of their own, with their paths; `inputs`: the tensors among them;
    `described`: the paths to those of which a guard says all; `numbers`: numbers and texts that may
    differ in later calls."""

    def __init__(self, tx: Trace, module: ModuleValue) -> None:
        """Raises CannotMove where a guard relates the module to something else."""
        root, log = module.known_source, tx.guards
        self.root, self.below = root, PathsBelow(root)
        self.first = MovedPaths(root, root, module.real)
        self.guards: list[Guard] = []
        above = set(beginnings(root))
        for guard in log:
            if guard.source in self.below:
                self._require_movable(guard, above)
                self.guards.append(guard)
            elif any(source in self.below or source in above for source in named_by(guard)):
                raise CannotMove(guard.source.name)  # another path leads there, or compares with it
            elif self.below.leads_on_to(guard.source):
                self._require_class(guard.source, log)
        self.guards = join_absent(self.guards)
        self.inputs = [
            item
            for item in tx.graph.inputs
            if isinstance(item, GraphInput) and item.source in self.below
        ]
        self.described = {
            item.source
            for item in self.inputs
            if (item.source, Kind.TENSOR) in log and is_described_by_guard(item.real)
        }
        self.objects: list[tuple[Source, Any, Value]] = [
            (value.source, real, value)
            for real, value in tx.objects.entries()
            if value.source is not None
            and value.source in self.below
            and not isinstance(value, UNREMEMBERED)
        ]
        self.objects += [(item.source, item.real, item.value) for item in self.inputs]
        self.numbers = [
            (source, number)
            for source, number in tx.symbols.numbers.items()
            if source in self.below
        ]

    def _require_movable(self, guard: Guard, above: set[Source]) -> None:
        if guard.kind is Kind.SAME:
            if guard.expected in above:
                raise CannotMove(guard.source.name)
        elif guard.kind not in KINDS:
            raise CannotMove(guard.source.name)

    def _require_class(self, source: Source, log: GuardLog) -> None:
        """Checks that it starts from the class of an object below, which a guard names."""
        for step in (source, *key_operands(source)):
            if isinstance(step, TypeOf) and step.of in self.below:
                if (step.of, Kind.TYPE) in log or (step.of, Kind.TENSOR) in log:
                    return
        raise CannotMove(source.name)

    def hold(self, moved: MovedPaths) -> Iterator[tuple[Guard, Source, object]]:
        """The guards that say the same of the second module, as what is to be added: each with its
        new source and what it expects. Raises CannotMove where one does not hold."""
        for guard in self.guards:
            subject, expected = moved.object(guard.source), guard.expected
            if guard.kind is Kind.SAME:
                if expected in self.below:
                    other, expected = moved.object(expected), moved.path(expected)
                else:
                    other = self.first.object(guard.source)
                if subject is not other:
                    raise CannotMove(guard.source.name)
            else:
                try:
                    holds = kind_of(guard).holds(expected, subject)
                except Exception as error:  # which means no
                    raise CannotMove(guard.source.name) from error
                if not holds:
                    raise CannotMove(guard.source.name)
            yield guard, moved.path(guard.source), expected


def join_absent(guards: list[Guard]) -> list[Guard]:
    """The same guards; those that say which keys a dictionary lacks are one guard."""
    absent: dict[Source, list[Guard]] = {}
    for guard in guards:
        if guard.kind is Kind.ABSENT:
            absent.setdefault(guard.source, []).append(guard)
    joined = {id(group[0]): joined_guard(group) for group in absent.values()}
    return [
        joined.get(id(guard), guard)
        for guard in guards
        if guard.kind is not Kind.ABSENT or id(guard) in joined
    ]


def joined_guard(group: list[Guard]) -> Guard:
    """One guard for several of kind ABSENT on one dictionary."""
    first, *others = group
    if not others:
        return first
    keys = tuple([guard.expected for guard in group])
    return Guard(first.source, Kind.ALL_ABSENT, keys, first.line)


def beginnings(source: Source) -> Iterator[Source]:
    """A path and the paths that it extends."""
    yield source
    for operand in source.operands:
        yield from beginnings(operand)


def key_operands(source: Source) -> Iterator[Source]:
    for operand in source.operands:
        yield from beginnings(operand)


def named_by(guard: Guard) -> Iterator[Source]:
    """The paths that a guard compares its own with."""
    return (source for source in kind_of(guard).subjects(guard) if source is not guard.source)
