"""PYTHON: a function of the object is true. Slow; for what is rare."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from ..encoded import Encoded
from ..guard import Guard, Kind
from .registry import RUNS_PYTHON, GuardKind, guard_kind


@guard_kind(Kind.PYTHON)
class Predicate(GuardKind):
    """A function in Python that is true of the object."""

    cost = 2 * RUNS_PYTHON

    def key(self, guard: Guard) -> Hashable:
        sentence, predicate = guard.expected
        return sentence, id(predicate)

    def holds(self, expected: tuple[str, Callable[[Any], Any]], subject: Any) -> bool:
        return bool(expected[1](subject))

    def encode(self, guard: Guard) -> Encoded:
        return Encoded("PYTHON", guard.expected[1], runs_python=True)

    def expression(self, guard: Guard) -> str:
        return guard.expected[0]

    def old(self, guard: Guard) -> str:
        return "true"

    def difference(self, guard: Guard, subject: Any) -> tuple[str, str, str]:
        return f'"{guard.expected[0]}"', "true", "false"
