"""Tier: whether the graphs of one piece of code run as captured or compiled by their backend.

A graph may run as it was captured at first. Its backend says after how much running a compile is
likely to be earned back; who notices that it has run so long asks for it.
"""

from __future__ import annotations

from collections.abc import Callable


class Tier:
    """`hot`: compiled by the backend, no longer run as captured. `due_s`: seconds of running after
    which compiling pays; 0 where no graph waits for that. `savable_s`: seconds that compiled graphs
    would have saved so far, as forecast."""

    def __init__(self) -> None:
        self.hot, self.due_s, self.savable_s = False, 0.0, 0.0
        self._outdate: Callable[[], None] | None = None

    def begin(self, outdate: Callable[[], None]) -> None:
        """A compile begins; `outdate` drops what it makes."""
        self.due_s, self._outdate = 0.0, outdate

    def wait(self, due_s: float) -> None:
        """A backend leaves a graph as captured until it has run for so many seconds."""
        self.due_s += due_s

    def promote(self) -> None:
        """Makes the next call compile with the backend."""
        if not self.hot and self._outdate is not None:
            self.hot, self.due_s = True, 0.0
            self._outdate()

    def outdate(self) -> None:
        """Drops what was compiled; the next call compiles again."""
        if self._outdate is not None:
            self._outdate()
