"""Typed records of what happened to a frame, and the sinks that receive them. Nothing is printed or
counted elsewhere."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import field
from itertools import count
from typing import Any

from .clock import Clock, Lap, Span
from .records import record
from .tier import Tier

# line, last line, column, last column, as code objects count them
Position = tuple[int | None, int | None, int | None, int | None]
NOWHERE: Position = (None, None, None, None)
_numbers = count(1)


def new_number() -> int:
    """A number for a compile, unique in this process; the records of one compile have the same
    number."""
    return next(_numbers)


@record
class Event:
    """What happened to a frame of a function; `where`: file:line."""

    function: str
    where: str


@record
class CompileStarted(Event):
    """A frame (or the rest of one after a break) is about to be compiled."""


@record
class Break(Event):
    """A graph break: where (in the innermost frame), why, and what the user can do."""

    chain: tuple[str, ...]  # file:line of each frame, from the break out to the root
    reason_id: str
    sentence: str
    hint: str
    position: Position = NOWHERE  # of what broke, in the innermost frame's file
    ops: int = 0  # operations on tensors that it is, which no graph has therefore
    number: int = field(default=0, compare=False)  # of the compile that ends in it


@record
class Input:
    """What a graph takes: the path to it, its type, sizes (symbols by name) and device."""

    source: str
    dtype: str
    sizes: tuple[str, ...]
    device: str


@record
class BackendCalled(Event):
    """A backend is about to compile a graph."""

    backend: str
    inputs: tuple[Input, ...]
    number: int = 0


@record
class Captured(Event):
    """A frame (or the rest of one after a break) became an entry, with its guards in the order in
    which they are checked."""

    ops: int
    graph: Any  # torch.fx.Graph, None when the capture has no tensor work
    guards: tuple[Any, ...]
    # by phase, of framejit.clock.PHASES, up to here
    seconds: dict[str, float] = field(default_factory=dict)
    number: int = 0
    lines: tuple[str, ...] = ()  # file:line of its operations and of the calls that led to them
    # positions of guards that are checked again only when something has changed
    watched: frozenset[int] = frozenset()
    from_disk: bool = False  # an earlier process captured it; then without the graph


@record
class TimeSpent(Event):
    """The time that a compile took, whether or not something came of it. `late`: it went on after
    the compile, when a call needed more."""

    # by phase, of framejit.clock.PHASES; no phase counts what another one does
    seconds: dict[str, float]
    spans: tuple[Span, ...] = ()
    number: int = 0
    late: bool = False


@record
class Skipped(Event):
    """A frame was left to Python."""

    reason: str


@record
class Change:
    """Why an entry could not serve a call: what it relied on, as it was when compiled and as it is
    now."""

    guard: str  # the condition as Python
    what: str  # the thing that differs: "x.size(0)", "type(x)"
    old: str
    new: str
    line: str  # file:line of the user's line that relied on it, or ""

    @property
    def sentence(self) -> str:
        return f"{self.what} is {self.new}, was {self.old} when compiled" + (
            f" ({self.line})" if self.line else ""
        )


@record
class Miss(Event):
    """A call found entries and none would serve it."""

    changes: tuple[Change, ...]  # one an entry, the one used last first
    # a loop has come to an iteration that needs an entry of its own: `where` says from where on,
    # `changes` since the last
    for_iteration: bool = False

    @property
    def failures(self) -> tuple[str, ...]:
        return tuple(change.sentence for change in self.changes)


@record
class Full(Event):
    """A site has as many entries as it may have; calls that none of them serves run in eager from
    now on."""

    limit: int
    option: str = "recompile_limit"  # of the options: which limit it is
    iterations_left: int = 0  # that a loop had left, if these are too many for an entry each

    @property
    def sentence(self) -> str:
        each = ", one for each iteration of a loop" if self.option == "unroll_iterations" else ""
        long = (
            f"; {self.iterations_left} more iterations of a loop, more than "
            "config.unroll_iterations, would need one each"
            if self.iterations_left
            else ""
        )
        return f"{self.limit} entries (config.{self.option}{long}){each}"


@record
class Specialised(Event):
    """A number that varies between calls was relied on: other values of it compile again. With
    `backend`, the program does not need it, the backend does: a size that it pinned.
    `where`: file:line of the user's line that needed it."""

    source: str
    number: str
    backend: str = ""
    operator: str = ""  # at which the backend needed it

    @property
    def sentence(self) -> str:
        line = f" ({self.where})" if self.where else ""
        if self.backend:
            return (
                f"backend {self.backend} pinned {self.source} == {self.number} at "
                f"{self.operator}{line}"
            )
        return f"relied on: {self.source} == {self.number}{line}"


@record
class Note(Event):
    """A backend's sentence about a graph."""

    text: str
    number: int = 0


@record
class KernelRecord:
    """A kernel of the native compiler. `ops`: the operators fused in it."""

    name: str
    language: str  # "c" or "triton"
    ops: tuple[str, ...]
    text: str


@record
class Kernels(Event):
    """What the native compiler made of a graph, or of one part of it."""

    part: str  # "graph", "forward" or "backward"
    kernels: tuple[KernelRecord, ...]
    called: tuple[tuple[str, int], ...]  # torch's own operators, and how often
    apart: tuple[tuple[str, str, str], ...]  # neighbours that were not fused, and why
    host: str  # the Python that launches them
    number: int = 0


@record
class Recorded(Event):
    """A CUDA graph was recorded, or not and why."""

    recorded: bool
    text: str
    number: int = 0


@record
class Chosen(Event):
    """What a graph runs on, of the backends that were tried."""

    backend: str
    why: str
    timings: tuple[tuple[str, float], ...] = ()  # seconds a call, the fastest first
    struck: tuple[tuple[str, str], ...] = ()  # what else was tried, and why it is out
    seconds: float = 0.0  # that the choice took
    number: int = 0

    @property
    def gain_s(self) -> float:
        """Seconds that a call takes less than in eager, 0 where both were not measured."""
        times = dict(self.timings)
        if "eager" in times and self.backend in times:
            return times.get("eager", 0.0) - times[self.backend]
        return 0.0

    @property
    def sentence(self) -> str:
        times = ", ".join(f"{name} {spent * 1e3:.3g} ms" for name, spent in self.timings)
        out = "".join(f"; {name}: {reason}" for name, reason in self.struck)
        return f"runs on {self.backend}: {self.why}" + (f" ({times})" if times else "") + out


@record
class WrongGraph(Event):
    """A compiled graph differed from eager in a call that was verified, and is not used any
    more."""

    backend: str
    reason: str
    script: str  # path of a script that shows it, "" where none could be written
    number: int = 0

    @property
    def sentence(self) -> str:
        shown = f"; reproduce it with {self.script}" if self.script else ""
        return (
            f"backend '{self.backend}' computed it wrongly: {self.reason}; it runs by torch's "
            f"operators now{shown}"
        )


@record
class Stored(Event):
    """What became of an entry on disk: taken by this process (`taken`), written, or why not."""

    taken: bool
    text: str


@record
class Working(Event):
    """Something is being compiled or tried in the background; `done` ends when it is."""

    done: Future[None]


@record
class Balance:
    """What a handle has spent on compiling, and what its compiled code has saved so far, as far as
    trials measured it beside eager. again: versions of code that had one before, and the seconds
    they took."""

    calls: int
    compiles: int
    seconds: float
    again: int
    again_s: float
    saved_s: float

    def __str__(self) -> str:
        spent = f"{self.compiles} compiles took {self.seconds:.2f} s"
        again = f", {self.again} of them ({self.again_s:.2f} s) of code compiled before"
        saved = f"; saved {self.saved_s:.2g} s in {self.calls} calls, by the trials' times"
        return spent + (again if self.again else "") + (saved if self.saved_s else "")


Sink = Callable[[Event], None]


class Reporter:
    """How a backend reports about a graph: called with a sentence, or by one of its methods."""

    def __init__(
        self,
        function: str,
        where: str,
        sink: Sink,
        clock: Clock | None = None,
        number: int = 0,
        tier: Tier | None = None,
    ) -> None:
        """tier: of the code being compiled, which a backend may ask to be compiled again; None
        where it cannot be."""
        self.function, self.where, self.number = function, where, number
        self.tier = tier
        self.clock = clock or Clock()
        self.send = sink

    def __call__(self, text: str) -> None:
        self.send(Note(self.function, self.where, text, self.number))

    def phase(self, name: str) -> Lap:
        """A context manager around one of framejit.clock.PHASES."""
        return self.clock.phase(name)

    def send_backend_called(self, backend: str, inputs: tuple[Input, ...]) -> None:
        self.send(BackendCalled(self.function, self.where, backend, inputs, self.number))

    def kernels(
        self,
        part: str,
        kernels: tuple[KernelRecord, ...],
        called: tuple[tuple[str, int], ...],
        apart: tuple[tuple[str, str, str], ...],
        host: str,
    ) -> None:
        self.send(
            Kernels(self.function, self.where, part, kernels, called, apart, host, self.number)
        )

    def send_recorded(self, recorded: bool, text: str) -> None:
        """Sends whether CUDA graphs were recorded."""
        self.send(Recorded(self.function, self.where, recorded, text, self.number))

    def working(self, done: Future[None]) -> None:
        self.send(Working(self.function, self.where, done))

    def chosen(
        self,
        backend: str,
        why: str,
        timings: tuple[tuple[str, float], ...],
        struck: tuple[tuple[str, str], ...],
        seconds: float,
    ) -> None:
        self.send(
            Chosen(self.function, self.where, backend, why, timings, struck, seconds, self.number)
        )

    def wrong(self, backend: str, reason: str, script: str) -> None:
        """A verified call found a difference from eager."""
        self.send(WrongGraph(self.function, self.where, backend, reason, script, self.number))


def ignore(event: Event) -> None:
    """A sink for a graph without a report."""


UNREPORTED = Reporter("a graph", "", ignore)


class Recorder:
    """A sink that keeps its records in order; with a limit, the last so many."""

    def __init__(self, limit: int | None = None) -> None:
        self.events: deque[Event] = deque(maxlen=limit)

    def __call__(self, event: Event) -> None:
        self.events.append(event)
