"""Stats: how many calls of each compiled function hit, compiled, or ran in eager."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...events import Miss
from ...records import record

if TYPE_CHECKING:
    from .cache import Cache


@record
class FunctionStats:
    """The calls of one compiled function, including the code after its graph breaks and the frames
    that it calls there."""

    function: str
    entries: int  # compiled code that is kept
    hits: int  # calls that compiled code served, first ones included
    compiles: int
    left_to_eager: (
        int  # calls that none served after config.recompile_limit was reached, or under a stance
    )
    full: int  # places that have as many entries as they may have
    misses: tuple[Miss, ...]  # the last ones, each with guard, old value, new value and line

    def __str__(self) -> str:
        """A line of counts, and one for each miss."""
        each = sum(miss.for_iteration for miss in self.misses)
        iterations = f" ({each} for iterations of a loop)" if each else ""
        counts = (
            f"{self.entries} entries, {self.hits} hits, {self.compiles} compiles, "
            f"{len(self.misses)} misses{iterations}"
        )
        eager = f", {self.left_to_eager} left to eager" if self.left_to_eager else ""
        full = f", {self.full} full" if self.full else ""
        return "\n".join(
            [
                f"{self.function}: {counts}{eager}{full}",
                *(f"    {miss.failures[0]}" for miss in self.misses),
            ]
        )


@record
class Stats:
    functions: tuple[FunctionStats, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, self.functions)) or "nothing compiled"


def make_stats(caches: Iterable[Cache]) -> Stats:
    found = [function_stats(cache) for cache in caches]
    return Stats(
        tuple(
            sorted(
                (one for one in found if one.compiles or one.entries), key=lambda one: one.function
            )
        )
    )


def function_stats(cache: Cache) -> FunctionStats:
    sites = cache.sites()
    entries = [entry for site in sites for entry in site.entries]
    return FunctionStats(
        function=cache.handle.function.__qualname__,
        entries=len(entries),
        hits=sum(entry.hits for entry in entries),
        compiles=cache.compiles,
        left_to_eager=sum(site.passed for site in sites),
        full=sum(site.full for site in sites),
        misses=tuple(cache.misses),
    )
