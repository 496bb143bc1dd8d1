"""GuardLog: the facts that a capture relies on, in the order in which they were found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .guard import Guard, Kind
from .source import Source

# Kinds of which one source may carry several guards that differ in what they expect.
REPEATABLE = frozenset(
    {
        Kind.ABSENT,
        Kind.ALL_ABSENT,
        Kind.PRESENT,
        Kind.EMPTY_ITEMS,
        Kind.SAME,
        Kind.DISTINCT,
        Kind.PYTHON,
        Kind.SHAPE,
    }
)


class GuardLog:
    """Guards by source and kind. `where` is the user's line that is being interpreted.
    process_bound: what else the capture relied on that another process may have otherwise, and no
    guard checks; "" for nothing."""

    def __init__(self, where: Callable[[], str]) -> None:
        self._where = where
        self.process_bound = ""
        self.truncations = 0  # so far
        self._guards: dict[Any, Guard] = {}

    def __len__(self) -> int:
        return len(self._guards)

    def __iter__(self) -> Iterator[Guard]:
        return iter(self._guards.values())

    def __contains__(self, key: tuple[Source, Kind]) -> bool:
        return key in self._guards

    def add(self, source: Source | None, kind: Kind, expected: Any) -> None:
        """Adds a guard on the object at `source`. Without a source there is nothing to check."""
        if source is None:
            return
        key = guard_key(source, kind, expected)
        if key not in self._guards:
            self._guards[key] = Guard(source, kind, expected, self._where())

    def repeat(self, guard: Guard, source: Source, expected: Any) -> None:
        """Adds a guard that was found for another object, on the object at `source`."""
        self._guards.setdefault(
            guard_key(source, guard.kind, expected), Guard(source, guard.kind, expected, guard.line)
        )

    def add_remaining(self, source: Source, count: int, cls: type, *, exactly: bool) -> None:
        """Guards how many items an iterator has left. A later call says more than an earlier one
        and replaces it."""
        self._guards[source, Kind.REMAINING] = Guard(
            source, Kind.REMAINING, (count, exactly, cls), self._where()
        )

    def truncate(self, length: int) -> None:
        """Drops the guards after the first `length`, when a break has removed the code that relied
        on them."""
        self.truncations += 1
        for key in list(self._guards)[length:]:
            del self._guards[key]


def guard_key(source: Source, kind: Kind, expected: Any) -> Any:
    """Equal for guards of which the log keeps one."""
    if kind in REPEATABLE:
        return source, kind, expected if kind is not Kind.PYTHON else expected[0]
    return source, kind
