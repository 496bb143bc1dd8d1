"""HASATTR: what hasattr() says, by the object's own protocol."""

from __future__ import annotations

from typing import Any

from ..encoded import Encoded
from ..guard import Guard, Kind
from .registry import RUNS_PYTHON, GuardKind, guard_kind


@guard_kind(Kind.HASATTR)
class HasAttr(GuardKind):
    cost = RUNS_PYTHON

    def holds(self, expected: tuple[str, bool], subject: Any) -> bool:
        name, there = expected
        return hasattr(subject, name) is there

    def encode(self, guard: Guard) -> Encoded:
        name, there = guard.expected
        return Encoded("HASATTR", name, int(there), runs_python=True)

    def expression(self, guard: Guard) -> str:
        name, there = guard.expected
        return f"{'' if there else 'not '}hasattr({guard.source.name}, {name!r})"

    def old(self, guard: Guard) -> str:
        return str(guard.expected[1])

    def difference(self, guard: Guard, subject: Any) -> tuple[str, str, str]:
        name, there = guard.expected
        return f"hasattr({guard.source.name}, {name!r})", str(there), str(not there)
