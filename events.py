"""Typed records of what happened to a frame, and the sinks that take them. Nothing is printed or counted elsewhere."""
from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
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


@dataclass(frozen=True)
class Note:
    """What a backend tells of a graph."""

    function: str
    where: str
    text: str


@dataclass(frozen=True)
class Chosen:
    """What a graph runs on, of the backends that were tried."""

    function: str
    where: str
    backend: str
    why: str
    timings: tuple[tuple[str, float], ...] = ()  # seconds a call, the fastest first
    struck: tuple[tuple[str, str], ...] = ()  # what else was tried, and why it is out
    seconds: float = 0.0  # that the choice took

    @property
    def sentence(self) -> str:
        times = ", ".join(f"{name} {spent * 1e3:.3g} ms" for name, spent in self.timings)
        out = "".join(f"; {name}: {reason}" for name, reason in self.struck)
        return f"runs on {self.backend}: {self.why}" + (f" ({times})" if times else "") + out


@dataclass(frozen=True)
class Working:
    """Something is being compiled or tried in the background; `done` ends when it is."""

    function: str
    where: str
    done: Future[None]


Event = Break | Captured | Skipped | Miss | Full | Specialised | Note | Chosen | Working
Sink = Callable[[Event], None]


class Reporter:
    """How a backend tells what became of a graph: called with a sentence, or with the outcome of a choice."""

    def __init__(self, function: str, where: str, sink: Sink) -> None:
        self.function, self.where, self._sink = function, where, sink

    def __call__(self, text: str) -> None:
        self._sink(Note(self.function, self.where, text))

    def working(self, done: Future[None]) -> None:
        self._sink(Working(self.function, self.where, done))

    def chosen(
        self, backend: str, why: str, timings: tuple[tuple[str, float], ...], struck: tuple[tuple[str, str], ...], seconds: float
    ) -> None:
        self._sink(Chosen(self.function, self.where, backend, why, timings, struck, seconds))


class Recorder:
    """A sink that keeps its records in order; with a limit, the last so many."""

    def __init__(self, limit: int | None = None) -> None:
        self.events: deque[Event] = deque(maxlen=limit)

    def __call__(self, event: Event) -> None:
        self.events.append(event)
