"""Failure: a guard that failed, in words."""

from __future__ import annotations

from ..records import record
from .guard import Guard


@record
class Failure:
    """`what` ("x.size(0)", "type(x)") was `old` when compiled and is `new` now. `guard` is None for
    a lifted object."""

    guard: Guard | None
    what: str
    old: str
    new: str

    @property
    def sentence(self) -> str:
        line = f" ({self.guard.line})" if self.guard is not None and self.guard.line else ""
        return f"{self.what} is {self.new}, was {self.old} when compiled{line}"

    def __str__(self) -> str:
        return self.sentence
