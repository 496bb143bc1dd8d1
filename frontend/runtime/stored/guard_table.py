"""Guard programs as rows of plain values, which are written and read much faster than objects, and
need not be built again.

In a row, (n,) stands for the path in row n, and (0, n) for an object that is written otherwise.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Sequence
from dataclasses import astuple
from typing import Any

from ....guards.guard import Guard, Kind
from ....guards.kinds import kind_of
from ....guards.lifetimes import TempAllocation
from ....guards.program import GuardProgram
from ....guards.section import Section
from ....guards.source import DictKey, Source
from ....guards.steps import GuardCheck, Load, Step
from ....records import record
from .content import WITHOUT_REFERENCES

PLAIN = frozenset({int, bool, float, complex, str, bytes, type(None), type(Ellipsis)})
KINDS = {kind.value: kind for kind in Kind}
# the object of a load: in the row, what the path says, or a key that another guard names
GIVEN, OF_PATH, OF_KEYS = range(3)


@record
class GuardTable:
    """A guard program as rows. paths: of each path its class and arguments. guards: of each guard
    its path, kind and expected value. lines: of the guards. lifted: paths. steps: of the program.
    temps: their allocation. objects: what the rows refer to."""

    paths: tuple[Any, ...]
    guards: tuple[Any, ...]
    lines: tuple[str, ...]
    lifted: tuple[Any, ...]
    steps: tuple[Any, ...]
    temps: tuple[Any, ...]
    objects: tuple[Any, ...]

    def encode(self) -> bytes:
        """The rows as bytes, without the objects."""
        return marshal.dumps(
            (self.paths, self.guards, self.lines, self.lifted, self.steps, self.temps)
        )

    @classmethod
    def decode(cls, data: bytes, objects: Sequence[Any]) -> GuardTable:
        paths, guards, lines, lifted, steps, temps = marshal.loads(data)
        return cls(paths, guards, lines, lifted, steps, temps, tuple(objects))

    def identity(self, text_of_object: Callable[[Any], str]) -> bytes:
        """The guards as bytes, without their lines: equal in two processes for equal guards."""
        texts = tuple(map(text_of_object, self.objects))
        return marshal.dumps((self.paths, self.guards, texts), WITHOUT_REFERENCES)


def make_table(program: GuardProgram) -> GuardTable:
    """The rows of a guard program. Paths and objects that occur several times are written once."""
    paths: list[Any] = []
    objects: list[Any] = []
    numbers: dict[int, tuple[int]] = {}
    positions: dict[int, tuple[int, int]] = {}

    def encode(value: Any) -> Any:
        if type(value) in PLAIN:
            return value
        if isinstance(value, Source):
            return numbers.get(id(value)) or add_path(value)
        position = positions.get(id(value))
        if position is None:
            position = positions[id(value)] = (0, len(objects))
            objects.append(value)
        return position

    def add_path(path: Source) -> tuple[int]:
        cls, arguments = path.parts()
        row = (encode(cls), *map(encode, arguments))
        number = numbers[id(path)] = (len(paths),)
        paths.append(row)
        return number

    guards = tuple(
        (encode(one.source), one.kind.value, encode(one.expected)) for one in program.guards
    )
    positions_of_guards = {id(guard): number for number, guard in enumerate(program.guards)}
    positions_of_guards[id(None)] = -1
    steps = tuple(row_of(step, positions_of_guards, encode) for step in program.steps)
    lifted = tuple(map(encode, program.lifted))
    return GuardTable(
        tuple(paths),  # when all have been added
        guards,
        tuple(guard.line for guard in program.guards),
        lifted,
        steps,
        astuple(program.temps),
        tuple(objects),
    )


def row_of(step: Step, guards: dict[int, int], encode: Callable[[Any], Any]) -> tuple[Any, ...]:
    """A step as a row. guards: their positions by their ids."""
    guard, section = guards[id(step.guard)], step.section.value
    if isinstance(step, GuardCheck):
        return guard, step.op, step.uses, step.number, step.runs_python, section
    if type(step.object) in PLAIN:
        how, given = GIVEN, step.object
    elif step.op == "CONSTANT" and isinstance(step.source, DictKey):
        how, given = OF_KEYS, None
    else:
        how, given = OF_PATH, None
    path = encode(step.source)
    return (
        guard,
        step.op,
        path,
        how,
        given,
        step.dst,
        step.uses,
        step.number,
        step.keep,
        step.runs_python,
        section,
    )


def read_table(table: GuardTable) -> GuardProgram:
    """The program of a table."""
    paths: list[Source] = []
    objects = table.objects

    def decode(value: Any) -> Any:
        if type(value) is not tuple:
            return value
        return paths[value[0]] if len(value) == 1 else objects[value[1]]

    for cls, *arguments in table.paths:
        paths.append(decode(cls)(*map(decode, arguments)))
    guards = tuple(
        Guard(decode(path), KINDS[kind], decode(expected), line)
        for (path, kind, expected), line in zip(table.guards, table.lines, strict=True)
    )
    keys = {guard.source: guard.expected for guard in guards if guard.kind is Kind.KEYS}

    def load_of(row: tuple[Any, ...]) -> Load:
        guard, op, path, how, given, dst, uses, number, keep, runs_python, section = row
        source = decode(path)
        if how == OF_PATH:
            given = source.encode().object
        elif how == OF_KEYS:
            given = keys[source.of][source.index]
        asked, place = guards[guard] if guard >= 0 else None, Section(section)
        return Load(op, dst, uses, source, given, number, keep, runs_python, asked, place)

    def check_of(row: tuple[Any, ...]) -> GuardCheck:
        number, op, uses, count, runs_python, section = row
        guard = guards[number]
        encoded = kind_of(guard).encode(guard)
        if guard.kind is not Kind.DISTINCT:
            count = encoded.number
        return GuardCheck(op, uses, guard, encoded.object, count, runs_python, Section(section))

    steps = tuple([check_of(row) if len(row) == 6 else load_of(row) for row in table.steps])
    return GuardProgram(
        guards, tuple(map(decode, table.lifted)), steps, TempAllocation(*table.temps)
    )
