"""Savings: the time that the entries of a handle save, by what the autotuner measured of them."""

from __future__ import annotations

from collections.abc import Iterable

from ...events import Chosen
from ._hook import Entry


class Savings:
    """Seconds a call by the number of a compile, and the numbers of the compiles that made the live
    entries."""

    def __init__(self) -> None:
        self._gains: dict[int, float] = {}
        self._numbers: dict[int, int] = {}  # by the ids of entries
        self.compiled_graphs = 0  # graphs for which something else than eager was chosen

    def add_choice(self, event: Chosen) -> None:
        """Takes what a compile has chosen, which may come after the compile."""
        self.compiled_graphs += event.backend != "eager"
        self._gains[event.number] = event.gain_s

    def add_entry(self, entry: Entry, number: int) -> None:
        """Notes which compile made an entry."""
        self._numbers[id(entry)] = number

    def seconds(self, entries: Iterable[Entry]) -> float:
        """What all calls that these entries served have saved."""
        return sum(
            entry.hits * self._gains.get(self._numbers.get(id(entry), 0), 0.0) for entry in entries
        )
