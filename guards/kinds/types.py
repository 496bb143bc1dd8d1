"""TYPE: the exact class."""

from __future__ import annotations

from typing import Any

from ..guard import Guard, Kind
from .registry import GuardKind, guard_kind


@guard_kind(Kind.TYPE)
class Type(GuardKind):
    """The exact class of an object."""

    cost = 1

    def key(self, guard: Guard) -> int:
        return id(guard.expected)  # a metaclass may define an odd __eq__

    def holds(self, expected: type, subject: Any) -> bool:
        return type(subject) is expected

    def expression(self, guard: Guard) -> str:
        return f"type({guard.source.name}) is {guard.expected.__qualname__}"

    def difference(self, guard: Guard, subject: Any) -> tuple[str, str, str]:
        return f"type({guard.source.name})", guard.expected.__qualname__, type(subject).__qualname__
