"""The account of a handle: how much it spends on compiling, and when it stops.

In: compiles, with the seconds they took and the number of versions that the site had before. Out:
whether a site may compile another version now. Uses no sites and no frames.
"""

from __future__ import annotations

import math
import time

FIRST_CALLS = 2  # of a function; compiles in these are not charged
USUAL_VERSIONS = 2  # of a site: with static sizes, and with dynamic ones
FREE_VERSIONS = 12  # of a handle, beyond the usual ones, before the share of time decides
TELLING = 100  # versions beyond the first of a site, after which the user is told
TELLING_S = 30.0  # seconds of compiling those, after which the user is told too


class Account:
    """Counts compiles and their seconds. Versions beyond the usual and the free ones may take the
    fraction `share` of the program's time; with `budget_s`, that many seconds in all instead."""

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
        """Whether a site with this many versions may compile another one now, at this call of the
        handle."""
        if versions < USUAL_VERSIONS:
            return True
        if self._budget_s is not None:
            return self._charged_s < self._budget_s
        if calls <= FIRST_CALLS or self._free > 0:
            return True
        return self._charged_s <= self._share * (time.monotonic() - self._start - self._charged_s)

    def charge(self, versions: int, calls: int, seconds: float) -> None:
        """Records the seconds of a compile at a site that had this many versions before."""
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
        tells = not self.told and (self.again >= TELLING or self.again_s >= TELLING_S)
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
            f"compiling code again has taken {self._charged_s:.2f} s, more than {self._share:.0%} "
            "of the program's "
            "time; goes on as that time grows, or with a larger options={'compile_budget': seconds}"
        )


ITERATIONS = (
    "iterations of its loop had code of their own that no other iteration used; others run in "
    "eager with "
    "all that they call. options={'compile_budget': float('inf')} compiles each"
)
