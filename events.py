"""Typed records of what happened to a frame, and the sinks that take them. Nothing is printed or counted elsewhere."""
from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Break:
    """A graph break: where, why, and what the user can do."""

    function: str
    where: str  # file:line of the innermost frame
    chain: tuple[str, ...]  # file:line of each inlined frame, innermost first
    reason_id: str
    sentence: str
    hint: str


@dataclass(frozen=True)
class Captured:
    """A frame (or the rest of one after a break) became an entry."""

    function: str
    where: str
    ops: int
    graph: Any  # torch.fx.Graph, None when the capture has no tensor work
    guards: tuple[Any, ...]
    seconds: dict[str, float] = field(default_factory=dict)  # by phase: trace, backend, guards, rebuild


@dataclass(frozen=True)
class Skipped:
    """A frame was left to Python."""

    function: str
    where: str
    reason: str


@dataclass(frozen=True)
class Change:
    """Why an entry could not serve a call: what it relied on, as it was when compiled and as it is now."""

    guard: str  # the condition as Python
    what: str  # the thing that differs: "x.size(0)", "type(x)"
    old: str
    new: str
    line: str  # file:line of the user's line that relied on it, or ""

    @property
    def sentence(self) -> str:
        return f"{self.what} is {self.new}, was {self.old} when compiled" + (f" ({self.line})" if self.line else "")


@dataclass(frozen=True)
class Miss:
    """A call found entries and none would serve it."""

    function: str
    where: str
    changes: tuple[Change, ...]  # one an entry, the one used last first

    @property
    def failures(self) -> tuple[str, ...]:
        return tuple(change.sentence for change in self.changes)


@dataclass(frozen=True)
class Full:
    """A site has as many entries as it may have; calls that none of them serves run in eager from now on."""

    function: str
    where: str
    limit: int


@dataclass(frozen=True)
class Specialised:
    """A number that varies between calls was relied on: other values of it compile again."""

    function: str
    source: str
    number: str
    where: str  # file:line of the user's line that needed it


Event = Break | Captured | Skipped | Miss | Full | Specialised
Sink = Callable[[Event], None]


class Recorder:
    """A sink that keeps its records in order; with a limit, the last so many."""

    def __init__(self, limit: int | None = None) -> None:
        self.events: deque[Event] = deque(maxlen=limit)

    def __call__(self, event: Event) -> None:
        self.events.append(event)
