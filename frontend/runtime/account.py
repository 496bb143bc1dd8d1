"""The account of a handle: the time it has spent on compiling, and whether it may compile more.

In: compiles, with their seconds and the number of versions that the site had before. Out: whether a
site may compile another version now. Uses no sites and no frames.
"""

from __future__ import annotations

import math
import time

FIRST_CALLS = 2  # calls of a function whose compiles are not charged
USUAL_VERSIONS = 2  # versions of a site: with static sizes, and with dynamic ones
FREE_VERSIONS = 12  # further versions of a handle that are not charged
# graphs of a handle with default settings: the first ones are free; so is, up to FREE_GRAPHS, new
# code that its first call comes to, if a compile has found LARGE_GRAPH operations on average; other
# early graphs may take EARLY_SHARE of the program's time
FIRST_GRAPHS, FREE_GRAPHS = 5, 12
FIRST_COMPILES = 8  # the first graphs are not free after so many compiles that have found less
# Of the programs with many breaks that this was measured on, those with fewer operations between
# two breaks were as fast in eager: passing a break takes as long as a graph of that size saves.
LARGE_GRAPH = 32
EARLY_SHARE = 0.2
# compiled versions, beyond the first of each site, after which the user is warned
WARN_AFTER_VERSIONS = 100
WARN_AFTER_S = 30.0  # seconds of compiling them, after which the user is warned
WARN_OF_LIMITS_AFTER_S = 1.0  # the same, for a site that has reached its limit of versions


class Account:
    """Counts compiles and their seconds. Versions beyond the usual and the free ones may take the
    fraction `share` of the program's time; with `budget_s`, that many seconds in total instead.
    economical: so may every graph beyond the first ones, unless there is a budget. A function of
    many breaks then gains nothing if it runs a few times, and is compiled part by part if it runs
    for long."""

    def __init__(
        self, share: float, budget_s: float | None = None, economical: bool = False
    ) -> None:
        self._share, self._budget_s = share, budget_s
        self._economical = economical and budget_s is None
        self._free = FREE_VERSIONS
        self._start: float | None = None  # of the first compile
        self._charged_s = 0.0
        self._compiles = self._graphs = self._operations = 0
        self._graphs_s = 0.0
        # of graphs beyond the first ones that the first call did not need; beyond the free ones
        self._early_s = self._late_s = 0.0
        self.seconds = self.again_s = 0.0
        self.again = 0
        self.has_warned = False  # whether the user was warned

    def compiles_all(self, calls: int, in_python_loop: bool = False) -> bool:
        """Whether each iteration of a loop gets code of its own if it needs it: in the first call,
        unless Python runs the loop because its length varies, and where the user set no bound at
        all."""
        return (calls <= 1 and not in_python_loop) or self._budget_s == math.inf

    def may_compile(self, versions: int, calls: int) -> bool:
        """Whether a site with this many versions may compile another one now, at this call of the
        handle."""
        if versions < USUAL_VERSIONS:
            return True
        if self._budget_s is not None:
            return self._charged_s < self._budget_s
        if calls <= FIRST_CALLS or self._free > 0:
            return True
        return self._charged_s <= self._share * (self._seconds_since_start() - self._charged_s)

    def may_begin(self, versions: int, calls: int) -> bool:
        """Whether a site with this many versions may compile now, at this call of the handle,
        whatever the call needs."""
        if not self._economical:
            return True
        large = self._operations >= LARGE_GRAPH * self._compiles
        if self._graphs < FIRST_GRAPHS and (large or self._compiles < FIRST_COMPILES):
            return True
        if self._graphs < FREE_GRAPHS and not versions and calls <= 1 and large:
            return True
        next_s = self._graphs_s / self._graphs if self._graphs else self.seconds / self._compiles
        running_s = self._seconds_since_start() - self.seconds
        spent_s = self._early_s if self._graphs < FREE_GRAPHS else self._late_s
        return spent_s + next_s <= self._graph_share * running_s

    @property
    def _graph_share(self) -> float:
        """The fraction of the program's time that the next graph may take."""
        return max(EARLY_SHARE, self._share) if self._graphs < FREE_GRAPHS else self._share

    def _seconds_since_start(self) -> float:
        return 0.0 if self._start is None else time.monotonic() - self._start

    def charge_graph(self, calls: int, seconds: float, operations: int) -> None:
        """Records the seconds of a compile that found so many tensor operations, at this call of
        the handle."""
        self._graphs += 1
        self._operations += operations
        self._graphs_s += seconds
        self._early_s += seconds if self._graphs > FIRST_GRAPHS and calls > 1 else 0.0
        self._late_s += seconds if self._graphs > FREE_GRAPHS else 0.0

    def charge(self, versions: int, calls: int, seconds: float) -> None:
        """Records the seconds of a compile at a site that had this many versions before."""
        self.seconds += seconds
        self._compiles += 1
        if self._start is None:
            self._start = time.monotonic() - seconds
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

    def warns_now(self) -> bool:
        """Whether to warn the user about the number or time of recompiles. True once."""
        warns = not self.has_warned and (
            self.again >= WARN_AFTER_VERSIONS or self.again_s >= WARN_AFTER_S
        )
        self.has_warned = self.has_warned or warns
        return warns

    @property
    def warns_of_limits(self) -> bool:
        """Whether to warn the user of a site that gets no further version. Not with default
        settings if its versions took little time: the program runs in eager then, as fast as
        without framejit, or the library that changes something in each call is not the user's."""
        return not self._economical or self.again_s >= WARN_OF_LIMITS_AFTER_S

    @property
    def refusal_of_graphs(self) -> str:
        """Why nothing is compiled now, and how to allow it."""
        return (
            f"{self._graphs} graphs are compiled; further ones may take {self._graph_share:.0%} of "
            "the program's time, and run in eager until then. "
            "options={'compile_budget': float('inf')} compiles all at once"
        )

    @property
    def refusal(self) -> str:
        """Why a site gets no further version now, and how to allow it."""
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
    "the code that was compiled for single iterations of its loop was not used again; other "
    "iterations run in eager, with all that they call. "
    "options={'compile_budget': float('inf')} compiles each"
)
