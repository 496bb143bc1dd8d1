"""Savings: the time that the entries of a handle save, by what the autotuner measured of them."""

from __future__ import annotations

from collections.abc import Iterable

from ...events import Chosen
from ._hook import Entry


class Savings:
    """Seconds a call by the number of a compile, and the numbers of the compiles that made the live
    entries."""

    def __init__(self) -> None:
        self._choices: dict[int, Chosen] = {}
        self._numbers: dict[int, int] = {}  # by the ids of entries
        self.compiled_graphs = 0  # graphs for which something else than eager was chosen

    def add_choice(self, event: Chosen) -> None:
        """Takes what a compile has chosen, which may come after the compile."""
        self.compiled_graphs += event.backend != "eager"
        self._choices[event.number] = event

    def add_entry(self, entry: Entry, number: int) -> None:
        """Notes which compile made an entry."""
        self._numbers[id(entry)] = number

    def seconds(self, entries: Iterable[Entry]) -> float:
        """What all calls that these entries served have saved."""
        choices = ((entry, self._choices.get(self._numbers.get(id(entry), 0))) for entry in entries)
        return sum(entry.hits * choice.gain_s for entry, choice in choices if choice is not None)
