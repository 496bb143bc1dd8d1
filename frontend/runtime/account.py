"""What a handle spends on compiling, and when it spends no more.

In: compiles, with the versions that the place had before and the seconds they took. Out: whether a
place gets another version now. Knows no sites and no frames.
"""

from __future__ import annotations

import math
import time

FIRST_CALLS = 2  # of a function, whose compiles cost nothing: they show what it is made of
USUAL_VERSIONS = 2  # of a place: with static sizes, and with those that vary
FREE_VERSIONS = 12  # beyond these, of a handle, before time decides
TELLING = 100  # versions beyond the usual after which the user is told


class Account:
    """Seconds spent, and on what. share: of the program's time that further versions may take, once
    the free ones are used up. budget_s: what they may take in all, instead; None for the share."""

    def __init__(self, share: float, budget_s: float | None = None) -> None:
        self._share, self._budget_s = share, budget_s
        self._free = FREE_VERSIONS
        self._start = time.monotonic()
        self._charged_s = 0.0
        self.seconds = self.again_s = 0.0
        self.again = 0
        self.told = False  # the user, of what this handle compiles

    def compiles_all(self, calls: int) -> bool:
        """Whether each iteration of a loop gets code of its own if it needs it: in the first call,
        and where the user set no bound at all."""
        return calls <= 1 or self._budget_s == math.inf

    def may_compile(self, versions: int, calls: int) -> bool:
        """Whether a place that has so many versions gets another one now. calls: of the handle."""
        if versions < USUAL_VERSIONS:
            return True
        if self._budget_s is not None:
            return self._charged_s < self._budget_s
        if calls <= FIRST_CALLS or self._free > 0:
            return True
        return self._charged_s <= self._share * (time.monotonic() - self._start - self._charged_s)

    def charge(self, versions: int, calls: int, seconds: float) -> None:
        """A compile at a place that had so many versions has taken so long."""
        self.seconds += seconds
        if versions:
            self.again += 1
            self.again_s += seconds
        if versions < USUAL_VERSIONS:
            return
        if self._budget_s is not None:
            self._charged_s += seconds
        elif calls > FIRST_CALLS:
            self._free -= 1
            self._charged_s += seconds if self._free < 0 else 0.0

    def tells_now(self) -> bool:
        """Whether so much has been compiled again that the user ought to know. True once."""
        tells = not self.told and self.again >= TELLING
        self.told = self.told or tells
        return tells

    @property
    def refusal(self) -> str:
        """Why a place gets no further version now, and what brings it back."""
        if self._budget_s is not None:
            return (
                f"the {self._budget_s:g} s of compile_budget for compiling code again are spent; "
                "a larger one brings it back"
            )
        return (
            f"compiling code again has taken {self._charged_s:.2f} s, more than {self._share:.0%} of the program's "
            "time; goes on as that time grows, or with a larger options={'compile_budget': seconds}"
        )


ITERATIONS = (
    "iterations of its loop had code of their own that no other iteration used; others run in eager with "
    "all that they call. options={'compile_budget': float('inf')} compiles each"
)
