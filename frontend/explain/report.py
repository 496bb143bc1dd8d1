"""Event records -> Report: what was captured, where it broke and why, what is checked, where the time went.

Knows records only: no frames, no caches; how a guard reads is told from outside.
"""
from __future__ import annotations

import linecache
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from rich.console import RenderableType

from ...events import Break, Captured, Chosen, Event, Full, Miss, Note, Skipped
from . import plain, table


@dataclass(frozen=True)
class CaptureReport:
    """A frame, or the rest of one after a break, that became compiled code. `ops` is 0 where it does no tensor work."""

    function: str
    where: str  # file:line
    ops: int
    graph: str  # the captured graph as Python, "" without tensor work
    guards: tuple[str, ...]  # what is checked before the compiled code may run, in words
    seconds: dict[str, float]  # by phase


@dataclass(frozen=True)
class BreakReport:
    """A place where Python had to run a statement between two captures."""

    id: str  # stable: one of framejit.errors.REASONS
    function: str
    where: str  # file:line of the innermost call
    source: str  # the text of that line, "" where it cannot be read
    chain: tuple[str, ...]  # file:line of each inlined call, innermost first
    reason: str
    hint: str
    times: int  # in how many captures


@dataclass(frozen=True)
class Report:
    """What framejit made of one call (`framejit.explain`), or of all calls so far (`handle.framejit.explain()`).

    `print(report)` gives text, `rich.print(report)` tables.
    """

    captures: tuple[CaptureReport, ...]
    breaks: tuple[BreakReport, ...]
    skipped: tuple[Skipped, ...]  # frames left to Python, with the reason
    misses: tuple[Miss, ...]  # calls that no compiled code could serve, with what differed
    choices: tuple[Chosen, ...] = ()  # what graphs run on where backends were tried
    notes: tuple[Note, ...] = ()  # what backends tell of graphs
    result: Any = field(default=None, repr=False, compare=False)  # what the explained call returned

    @property
    def graphs(self) -> tuple[CaptureReport, ...]:
        """The captures that do tensor work."""
        return tuple(capture for capture in self.captures if capture.ops)

    @property
    def ops(self) -> int:
        """Operations in all graphs."""
        return sum(capture.ops for capture in self.captures)

    @property
    def guards(self) -> tuple[str, ...]:
        """The guards of all captures, without repetitions."""
        return tuple(dict.fromkeys(line for capture in self.captures for line in capture.guards))

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds by phase, of all captures."""
        phases: dict[str, float] = {}
        for capture in self.captures:
            for phase, spent in capture.seconds.items():
                phases[phase] = phases.get(phase, 0.0) + spent
        return phases

    def __str__(self) -> str:
        return plain.text(self)

    def __rich__(self) -> RenderableType:
        return table.renderable(self)


def make_report(events: Iterable[Event], describe: Callable[[Any], str], result: Any = None) -> Report:
    """A report of records in their order; `describe` puts a guard into words."""
    events = tuple(events)
    return Report(
        captures=tuple(capture_report(event, describe) for event in events if isinstance(event, Captured)),
        breaks=break_reports(event for event in events if isinstance(event, Break)),
        skipped=tuple(full(event) if isinstance(event, Full) else event for event in events if isinstance(event, Skipped | Full)),
        misses=tuple(event for event in events if isinstance(event, Miss)),
        choices=tuple(event for event in events if isinstance(event, Chosen)),
        notes=tuple(dict.fromkeys(event for event in events if isinstance(event, Note))),
        result=result,
    )


def full(event: Full) -> Skipped:
    reason = f"calls that its {event.limit} entries (config.recompile_limit) do not serve run in eager; the misses say what keeps changing"
    return Skipped(event.function, event.where, reason)


def capture_report(event: Captured, describe: Callable[[Any], str]) -> CaptureReport:
    graph = "" if event.graph is None else event.graph.python_code("self").src.strip()
    guards = tuple(describe(guard) for guard in event.guards)
    return CaptureReport(event.function, event.where, event.ops, graph, guards, dict(event.seconds))


def break_reports(events: Iterable[Break]) -> tuple[BreakReport, ...]:
    """One report a place and reason, in the order first met."""
    times: dict[Break, int] = {}
    for event in events:
        times[event] = times.get(event, 0) + 1
    return tuple(
        BreakReport(event.reason_id, event.function, event.where, source_line(event.where), event.chain, event.sentence, event.hint, count)
        for event, count in times.items()
    )


def source_line(where: str) -> str:
    """The text at file:line."""
    name, _, line = where.rpartition(":")
    return linecache.getline(name, int(line)).strip() if line.isdigit() else ""
