"""REMAINING: how many items a builtin iterator has left."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..encoded import Encoded
from ..guard import Guard, Kind
from ..iterators import COUNTED, FORWARD_DICT, ITERATORS, remaining
from .registry import GuardKind, guard_kind


@guard_kind(Kind.REMAINING)
class Remaining(GuardKind):
    """(count, whether just so many or more, type of the iterator)."""

    cost = 2

    def holds(self, expected: tuple[int, bool, type], subject: Any) -> bool:
        if type(subject) not in ITERATORS:
            return False
        count, exactly, _ = expected
        return remaining(subject) == count if exactly else remaining(subject) >= count

    def encode(self, guard: Guard) -> Encoded:
        count, exactly, cls = guard.expected
        if cls not in COUNTED and cls not in FORWARD_DICT:
            return Encoded("PYTHON", partial(self.holds, guard.expected), runs_python=True)
        return Encoded("EXACTLY_LEFT" if exactly else "AT_LEAST_LEFT", number=count)

    def expression(self, guard: Guard) -> str:
        count, exactly, _ = guard.expected
        return f"length_hint({guard.source.name}) {'==' if exactly else '>='} {count}"

    def difference(self, guard: Guard, subject: Any) -> tuple[str, str, str]:
        count, exactly, _ = guard.expected
        return (
            f"items left in {guard.source.name}",
            f"{count}" if exactly else f"at least {count}",
            str(remaining(subject)),
        )
