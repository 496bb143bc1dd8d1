"""Guards and paths as rows of plain values, which are written and read much faster than objects.

In a row, (n,) stands for the path in row n, and (0, n) for an object that is written otherwise.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ....guards.guard import Guard, Kind
from ....guards.source import Source

PLAIN = frozenset({int, bool, float, complex, str, bytes, type(None), type(Ellipsis)})
KINDS = {kind.value: kind for kind in Kind}


@dataclass(frozen=True)
class GuardTable:
    """paths: of each path its class and arguments. guards: of each guard its path, kind and what it
    expects. lines: of the guards. lifted: paths. objects: what the rows refer to."""

    paths: tuple[Any, ...]
    guards: tuple[Any, ...]
    lines: tuple[str, ...]
    lifted: tuple[Any, ...]
    objects: tuple[Any, ...]

    def encode(self) -> bytes:
        """All but the objects."""
        return marshal.dumps((self.paths, self.guards, self.lines, self.lifted))

    @classmethod
    def decode(cls, data: bytes, objects: Sequence[Any]) -> GuardTable:
        paths, guards, lines, lifted = marshal.loads(data)
        return cls(paths, guards, lines, lifted, tuple(objects))

    def text(self, text_of_object: Callable[[Any], str]) -> str:
        """The guards as text, without their lines: equal in two processes for equal guards."""
        return repr((self.paths, self.guards, [*map(text_of_object, self.objects)]))


def make_table(guards: Sequence[Guard], lifted: Sequence[Source]) -> GuardTable:
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

    rows = tuple((encode(one.source), one.kind.value, encode(one.expected)) for one in guards)
    lines = tuple(guard.line for guard in guards)
    last = tuple(map(encode, lifted))
    return GuardTable(tuple(paths), rows, lines, last, tuple(objects))


def read_table(table: GuardTable) -> tuple[list[Guard], list[Source]]:
    """The guards and the lifted paths of a table."""
    paths: list[Source] = []
    objects = table.objects

    def decode(value: Any) -> Any:
        if type(value) is not tuple:
            return value
        return paths[value[0]] if len(value) == 1 else objects[value[1]]

    for cls, *arguments in table.paths:
        paths.append(decode(cls)(*map(decode, arguments)))
    guards = [
        Guard(decode(path), KINDS[kind], decode(expected), line)
        for (path, kind, expected), line in zip(table.guards, table.lines, strict=True)
    ]
    return guards, [*map(decode, table.lifted)]
