"""Builds a Report from event records and a probe's measurements. Uses no frames and no caches; the
caller formats guards."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

import torch
import torch.fx

from ...backends.graph.node_targets import name_of
from ...events import (
    BackendCalled,
    Balance,
    Break,
    Captured,
    Change,
    Chosen,
    CompileStarted,
    Event,
    Full,
    Kernels,
    Miss,
    Note,
    Recorded,
    Skipped,
    Specialised,
    Stored,
    TimeSpent,
    WrongGraph,
)
from .report import Report
from .report_data import (
    BreakReport,
    CaptureReport,
    GuardReport,
    IterationsReport,
    Node,
    TimelineSpan,
    Times,
)
from .source_text import caret, source_line, source_parts

MOST_SPANS = 800  # of either kind
Describe = Callable[[Any], str]
T = TypeVar("T")


class ProbeMeasurements(Protocol):
    """The measurements of a probe."""

    breaks: dict[Any, Any]
    graphs: dict[int, Any]
    calls: Any
    checks: dict[int, Any]
    spans: list[Any]
    overhead: float

    @property
    def graph_seconds(self) -> float: ...


class RecordsByNumber:
    """Records by the number of the compile that they belong to."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._by_number: dict[int, list[Any]] = {}
        for event in events:
            number = getattr(event, "number", 0)
            if number and type(number) is int:
                self._by_number.setdefault(number, []).append(event)

    def of(self, kind: type[T], number: int) -> tuple[T, ...]:
        return of_kind(self._by_number.get(number, ()), kind)


def make_report(
    events: Iterable[Event],
    describe: Describe,
    probe: ProbeMeasurements | None = None,
    wall: float | None = None,
    title: str = "",
    account: Balance | None = None,
) -> Report:
    """A report of records in their order. describe: formats a guard. wall: seconds of the explained
    calls."""
    events = tuple(events)
    captured = of_kind(events, Captured)
    numbered = RecordsByNumber(events)
    captures = tuple(capture_report(event, numbered, describe, probe) for event in captured)
    breaks = break_reports(of_kind(events, Break), probe)
    misses = of_kind(events, Miss)
    return Report(
        captures=captures,
        breaks=breaks,
        skipped=tuple(
            skip_of_full_site(event) if isinstance(event, Full) else event
            for event in of_kind(events, Skipped | Full)
        ),
        misses=tuple(event for event in misses if not event.for_iteration),
        iterations=iteration_reports(event for event in misses if event.for_iteration),
        times=times(events, probe, wall),
        specialised=tuple(dict.fromkeys(of_kind(events, Specialised))),
        notes=tuple(dict.fromkeys(of_kind(events, Note))),
        stored=of_kind(events, Stored),
        recordings=tuple(dict.fromkeys(of_kind(events, Recorded))),
        sources=source_parts(
            [(line, event.number) for event in captured for line in event.lines if line],
            [(where, position) for position, one in enumerate(breaks) for where in one.chain],
        ),
        timeline=timeline(events, probe),
        seen=len(of_kind(events, CompileStarted)),
        title=title or (captures[0].function if captures else ""),
        account=account,
    )


def of_kind(events: Iterable[Event], kind: Any) -> tuple[Any, ...]:
    """The events of a class, or of one of several."""
    return tuple(event for event in events if isinstance(event, kind))


def skip_of_full_site(event: Full) -> Skipped:
    reason = (
        f"calls that its {event.sentence} do not serve run in eager; the misses say what "
        "keeps changing"
    )
    return Skipped(event.function, event.where, reason)


def iteration_reports(events: Iterable[Miss]) -> tuple[IterationsReport, ...]:
    """One report for each site."""
    places: dict[tuple[str, str], list[Change]] = {}
    for event in events:
        places.setdefault((event.function, event.where), []).append(event.changes[0])
    return tuple(
        IterationsReport(*place, changes[0].what, changes[0].line, len(changes))
        for place, changes in places.items()
    )


# --- captures ---


def capture_report(
    event: Captured, others: RecordsByNumber, describe: Describe, probe: ProbeMeasurements | None
) -> CaptureReport:
    """What a report says of one capture: its own record, and those of its number."""
    number = event.number
    spent = [one.seconds for one in others.of(TimeSpent, number)]
    given, choices = others.of(BackendCalled, number), others.of(Chosen, number)
    tally = None if probe is None else probe.graphs.get(number)
    costs = None if probe is None else probe.checks.get(number)
    return CaptureReport(
        function=event.function,
        where=event.where,
        ops=event.ops,
        graph="" if event.graph is None else event.graph.python_code("self").src.strip(),
        checks=checks(event, describe, () if costs is None else costs.alone),
        seconds=sum_seconds(spent) if spent else dict(event.seconds),
        number=number,
        nodes=() if event.graph is None else nodes(event.graph),
        inputs=given[-1].inputs if given else (),
        backend=choices[-1].backend if choices else given[-1].backend if given else "",
        choices=choices,
        kernels=others.of(Kernels, number),
        recordings=others.of(Recorded, number),
        wrong=others.of(WrongGraph, number),
        notes=tuple(dict.fromkeys(note.text for note in others.of(Note, number))),
        check_seconds=None if costs is None else costs.together,
        runs=None if tally is None else tally.all_times,
        run_seconds=None if tally is None else tally.each,
    )


def checks(
    event: Captured, describe: Describe, costs: tuple[float | None, ...]
) -> tuple[GuardReport, ...]:
    return tuple(
        GuardReport(
            describe(guard),
            getattr(guard, "line", ""),
            costs[place] if place < len(costs) else None,
            place in event.watched,
        )
        for place, guard in enumerate(event.guards)
    )


def nodes(graph: torch.fx.Graph) -> tuple[Node, ...]:
    """The nodes of a graph as a report shows them."""
    return tuple(
        Node(
            node.name,
            node_kind(node),
            target_of(node),
            tuple(one.name for one in node.all_input_nodes),
            type_of(node.meta.get("example_value")),
            node.meta.get("line", ""),
        )
        for node in graph.nodes
    )


def node_kind(node: torch.fx.Node) -> str:
    if node.op == "placeholder":
        if isinstance(node.meta.get("example_value"), torch.nn.Parameter):
            return "parameter"
        return "input"
    return "output" if node.op == "output" else "op"


def target_of(node: torch.fx.Node) -> str:
    if node.op == "placeholder":
        return str(node.meta.get("path", node.name))
    return name_of(node)


def type_of(example: Any) -> str:
    """ "float32[2, 3]"; a number's type."""
    if not isinstance(example, torch.Tensor):
        return "" if example is None else type(example).__name__
    return f"{str(example.dtype).removeprefix('torch.')}[{', '.join(map(str, example.shape))}]"


# --- breaks ---


def break_reports(
    events: Iterable[Break], probe: ProbeMeasurements | None
) -> tuple[BreakReport, ...]:
    """One report for each place and reason, in the order of occurrence."""
    times: dict[Break, int] = {}
    for event in events:
        times[event] = times.get(event, 0) + 1
    return tuple(break_report(event, count, probe) for event, count in times.items())


def break_report(event: Break, count: int, probe: ProbeMeasurements | None) -> BreakReport:
    """What a report says of a break that occurred `count` times, with its measured cost."""
    tally = (
        None if probe is None else probe.breaks.get((event.function, event.chain, event.reason_id))
    )
    return BreakReport(
        id=event.reason_id,
        function=event.function,
        where=event.where,
        source=source_line(event.where),
        chain=event.chain,
        reason=event.sentence,
        hint=event.hint,
        times=count,
        caret=caret(event.where, event.position),
        ops_lost=event.ops,
        passes=tally.work.all_times if tally is not None else None if probe is None else 0,
        lost=None if tally is None or not tally.lost.all_times else max(0.0, tally.lost.each),
        work=None if tally is None or not tally.work.all_times else max(0.0, tally.work.each),
    )


# --- time ---


def sum_seconds(several: Iterable[dict[str, float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for one in several:
        for phase, seconds in one.items():
            total[phase] = total.get(phase, 0.0) + seconds
    return total


def times(events: tuple[Event, ...], probe: ProbeMeasurements | None, wall: float | None) -> Times:
    spent = sum_seconds(event.seconds for event in of_kind(events, TimeSpent))
    if not spent:
        spent = sum_seconds(event.seconds for event in of_kind(events, Captured))
    if probe is None or not probe.calls.all_times:
        return Times(spent, wall)
    graphs = probe.graph_seconds
    return Times(spent, wall, graphs, max(0.0, probe.calls.total - graphs), probe.overhead)


def timeline(
    events: tuple[Event, ...], probe: ProbeMeasurements | None
) -> tuple[TimelineSpan, ...]:
    """The phases of compiling and running in order of their start, which is counted from the
    first."""
    compiling = [
        TimelineSpan("compile", span.phase, event.number, span.start, span.end, span.depth)
        for event in of_kind(events, TimeSpent)
        for span in event.spans
    ]
    running = (
        []
        if probe is None
        else [
            TimelineSpan("run", span.kind, span.number, span.start, span.end, 0)
            for span in probe.spans
        ]
    )
    found = sorted((*compiling[:MOST_SPANS], *running[:MOST_SPANS]), key=lambda span: span.start)
    first = found[0].start if found else 0.0
    return tuple(
        TimelineSpan(one.row, one.phase, one.number, one.start - first, one.end - first, one.depth)
        for one in found
    )
