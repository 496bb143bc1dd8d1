"""Entries that have served one call only: what they depend on may differ in every call.

In: the entries of a site. Out: whether another one is likely to be used again.
"""

from __future__ import annotations

from collections.abc import Iterable

from ._hook import Entry, Site

ENTRIES = 4  # that a site gets before any has served a second call
MISSES = 16  # calls in eager until the entries are looked at again
UNUSED = (
    "most of its versions have served one call each, so that another one would not be used again, "
    "either; calls that none serves run in eager until these have. "
    "options={'compile_budget': float('inf')} compiles each"
)


class UnusedEntries:
    """The sites whose entries are not used again."""

    def __init__(self) -> None:
        self._misses_left: dict[Site, int] = {}

    def must_wait(self, site: Site) -> bool:
        """Whether the site was found to have unused entries a few misses ago."""
        left = self._misses_left.get(site, 0)
        if left:
            self._misses_left[site] = left - 1
        return left > 0

    def hold_back(self, site: Site) -> bool:
        """Whether most of the site's entries are unused; its next misses wait, then."""
        waits = mostly_unused(site.entries)
        if waits:
            self._misses_left[site] = MISSES
        return waits


def mostly_unused(entries: Iterable[Entry]) -> bool:
    hits = [entry.hits for entry in entries]
    return len(hits) >= ENTRIES and sum(count > 1 for count in hits) * 2 < len(hits)
