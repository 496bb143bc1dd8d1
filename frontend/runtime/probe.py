"""Probe: the time of compiled code while it is measured - graphs, breaking statements, and the
overhead between them.

Code compiled with a probe calls its marks (codegen's TimingMarks); other code has none. The clock
stops while framejit compiles, and during the marks themselves.

The time lost at a break is the time from the end of the graph before it (or the start of the
segment, without one) to the start of the next graph, minus the breaking statement's own time:
building Python's state, dispatch, guards, loading the state.
"""

from __future__ import annotations

import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType, FunctionType
from typing import Any

from ...guards.program import GuardProgram
from ...records import record
from ._hook import Quiet

MOST_SPANS = 4000
MOST_IN_PROGRESS = 200
MOST_SAMPLES = 500
ROUNDS = 300  # for finding out what a mark takes

BreakKey = tuple[str, tuple[str, ...], str]  # function, file:line of each frame, id of the reason


@dataclass
class Tally:
    """How often something ran and for how long. First runs are kept apart, since caches are
    cold."""

    times: int = 0
    seconds: float = 0.0
    first_times: int = 0
    first_seconds: float = 0.0
    samples: list[float] = field(default_factory=list)  # the latest samples, without first runs

    def add(self, seconds: float, first: bool) -> None:
        if first:
            self.first_times += 1
            self.first_seconds += seconds
            return
        if len(self.samples) < MOST_SAMPLES:
            self.samples.append(seconds)
        else:
            self.samples[self.times % MOST_SAMPLES] = seconds
        self.times += 1
        self.seconds += seconds

    @property
    def all_times(self) -> int:
        return self.times + self.first_times

    @property
    def total(self) -> float:
        return self.seconds + self.first_seconds

    @property
    def each(self) -> float:
        """Seconds for one run: the median of later runs where there are any, which excludes
        interruptions such as garbage collection."""
        if self.samples:
            return statistics.median(self.samples)
        return self.first_seconds / max(self.first_times, 1)


@dataclass
class BreakTally:
    """The time of passing a break: `lost` around the statement, `work` in it."""

    lost: Tally = field(default_factory=Tally)
    work: Tally = field(default_factory=Tally)


@record
class GuardCosts:
    """Seconds for checking an entry's guards: all together, and each alone. None for a watched
    guard, which costs nothing while nothing has changed."""

    together: float
    alone: tuple[float | None, ...]


@record
class RunSpan:
    """When a graph or a statement ran, in seconds of time.perf_counter()."""

    kind: str  # "graph" or "statement"
    number: int  # of the compile
    start: float
    end: float


class CallInProgress:
    """One call in progress: its segments run one after the other."""

    __slots__ = ("at", "before", "cold", "last", "left", "segment", "since", "start")

    def __init__(self, start: float) -> None:
        self.start = self.last = start
        # the running segment, or the one whose breaking statement runs
        self.segment: SegmentMarks | None = None
        # the frame in which a statement runs, and its code, by id, since code objects may not be
        # hashable
        self.at: tuple[int, int] | None = None
        # the segment whose break is done and whose loss is not counted yet
        self.left: SegmentMarks | None = None
        self.before = 0.0  # time lost by it so far
        self.since = 0.0  # when the statement or graph began, on a clock that never stops
        self.cold = False


class Thread(threading.local):
    """A thread's calls in progress, innermost last, and how long its clock has been stopped."""

    def __init__(self) -> None:
        self.in_progress: list[CallInProgress] = []
        self.still = 0.0


class Probe:
    """Collects the measurements of all code that is compiled with it."""

    def __init__(self, calibrate: bool = True) -> None:
        self.breaks: dict[BreakKey, BreakTally] = {}
        self.graphs: dict[int, Tally] = {}  # by number of the compile
        # seconds of whole calls, from the first to the last segment, graphs included
        self.calls = Tally()
        self.checks: dict[int, GuardCosts] = {}  # by number of the compile
        self.spans: list[RunSpan] = []
        self.overhead = 0.0  # seconds that marks took
        self.thread = Thread()
        # the cost of calling a mark, and of the marks around a graph, which these cannot measure
        # themselves
        self.mark_cost = self.graph_cost = 0.0
        if calibrate:
            self.mark_cost = overheads(self.mark_cost, self.graph_cost)[0]
            self.graph_cost = overheads(self.mark_cost, self.graph_cost)[1]

    def segment(self, number: int, continues: bool) -> SegmentMarks:
        """The marks of a segment that is being compiled. continues: whether it follows a break."""
        return SegmentMarks(self, number, continues)

    @contextmanager
    def pause_clock(self) -> Iterator[None]:
        """Stops the clock inside."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.thread.still += time.perf_counter() - start

    def mark(self, body: Callable[[float], None], around: float = 0.0) -> Callable[[], None]:
        """A function that calls `body` with the time, while the clock is stopped, and stops it for
        `around` more seconds."""
        thread, cost = self.thread, self.mark_cost + around

        def run() -> None:
            start = time.perf_counter()
            body(start - thread.still)
            spent = time.perf_counter() - start + cost
            thread.still += spent
            self.overhead += spent

        return run

    def span(self, kind: str, number: int, start: float) -> None:
        if len(self.spans) < MOST_SPANS:
            self.spans.append(RunSpan(kind, number, start, time.perf_counter()))

    @property
    def graph_seconds(self) -> float:
        return sum(tally.total for tally in self.graphs.values())


class SegmentMarks:
    """The marks that one segment calls while it runs."""

    def __init__(self, probe: Probe, number: int, continues: bool) -> None:
        self.probe, self.number, self.continues = probe, number, continues
        self.broken: BreakKey | None = None  # the break that it ends in
        self.has_graph = False
        self.runs = 0
        # quiet: the hook ignores framejit's own frames
        self.begin, self.leave, self.resume, self.end = map(
            Quiet, map(probe.mark, (self._begin, self._leave, self._resume, self._end))
        )

    def time_graph(self, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """The segment's graph, wrapped so that it reports when it runs."""
        self.has_graph = True
        enter = self.probe.mark(self._enter_graph)
        done = self.probe.mark(self._leave_graph, self.probe.graph_cost)

        def run(*args: Any) -> Any:
            enter()
            try:
                return compiled(*args)
            finally:
                done()

        return run

    @property
    def _calls(self) -> list[CallInProgress]:
        return self.probe.thread.in_progress

    def _begin(self, now: float) -> None:
        """Begins a run: of a new call, or of one that went on after a break."""
        calls = self._calls
        call = calls[-1] if calls else None
        if not self.continues or call is None or call.left is None:
            drop_ended_calls(calls)
            call = CallInProgress(now)
            calls.append(call)
        self.runs += 1
        first = self.runs == 1
        if call.left is not None:
            call.before += now - call.last
            call.cold = call.cold or first
            if not self.has_graph:
                self._count_lost(call)
        else:
            call.cold = first
        call.segment, call.last = self, now

    def _enter_graph(self, now: float) -> None:
        if calls := self._calls:
            call = calls[-1]
            if call.left is not None:
                call.before += now - call.last
                self._count_lost(call)
            call.last, call.since = now, time.perf_counter()

    def _leave_graph(self, now: float) -> None:
        probe = self.probe
        if calls := self._calls:
            call = calls[-1]
            probe.graphs.setdefault(self.number, Tally()).add(now - call.last, self.runs == 1)
            probe.span("graph", self.number, call.since)
            call.last = now

    def _leave(self, now: float) -> None:
        if calls := self._calls:
            call = calls[-1]
            call.before = now - call.last
            call.cold = self.runs == 1
            call.last, call.since = now, time.perf_counter()
            frame = sys._getframe(2)
            call.at = id(frame), id(frame.f_code)

    def _resume(self, now: float) -> None:
        probe, calls = self.probe, self._calls
        # calls inside the statement that ended with an exception
        while calls and calls[-1].segment is not self:
            calls.pop()
        if calls:
            call = calls[-1]
            if self.broken is not None:
                work = probe.breaks.setdefault(self.broken, BreakTally()).work
                work.add(now - call.last, call.cold)
            probe.span("statement", self.number, call.since)
            call.left, call.at, call.last = self, None, now

    def _end(self, now: float) -> None:
        calls = self._calls
        if calls:
            call = calls.pop()
            if not calls:
                self.probe.calls.add(now - call.start, call.cold)

    def _count_lost(self, call: CallInProgress) -> None:
        """Counts what the break before this segment has lost."""
        if call.left is not None and call.left.broken is not None:
            self.probe.breaks.setdefault(call.left.broken, BreakTally()).lost.add(
                call.before, call.cold
            )
        call.left, call.before = None, 0.0


def drop_ended_calls(calls: list[CallInProgress]) -> None:
    """Drops calls that have ended without a mark, at the start of another call: those that are not
    in a breaking statement, and those whose frame is gone."""
    while calls and calls[-1].at is None:
        calls.pop()
    if not calls:
        return
    running: set[tuple[int, int]] = set()
    frame: FrameType | None = sys._getframe(3)
    while frame is not None:
        running.add((id(frame), id(frame.f_code)))
        frame = frame.f_back
    calls[:] = [call for call in calls if call.at in running][-MOST_IN_PROGRESS:]


def overheads(mark_cost: float, graph_cost: float) -> tuple[float, float]:
    """Measured seconds of an empty statement: in it, and around it."""
    probe = Probe(calibrate=False)
    probe.mark_cost, probe.graph_cost = mark_cost, graph_cost
    segment = probe.segment(0, False)
    segment.broken = "", (), ""
    leave, resume, graph = segment.leave, segment.resume, segment.time_graph(int)
    segment.begin()
    segment.runs = 2
    for _ in range(ROUNDS):
        leave()
        resume()
        graph()
    found = probe.breaks[segment.broken]
    return min(found.work.samples), max(0.0, min(found.lost.samples))


def guard_costs(
    program: GuardProgram, slots: tuple[Any, ...], function: FunctionType
) -> GuardCosts:
    """Times a check of all guards, and of each guard that every call checks."""

    def check_of(program: GuardProgram) -> float:
        native = program.native()
        return seconds_of(lambda: native.check(slots, function)) - nothing

    nothing = 0.0
    nothing = check_of(GuardProgram.build(()))
    together, watched = max(0.0, check_of(program)), program.watched_guards
    alone = (
        None if n in watched else max(0.0, check_of(GuardProgram.build((guard,))))
        for n, guard in enumerate(program.guards)
    )
    return GuardCosts(together, tuple(alone))


ROUNDS = 20


def seconds_of(check: Callable[[], object]) -> float:
    """The shortest mean time of several calls."""
    check()
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(ROUNDS):
            check()
        best = min(best, time.perf_counter() - start)
    return best / ROUNDS
