"""Clock: the time that one compile spends in each phase. A phase inside another is taken out of the
outer one, so that all add up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType

from .records import record

PHASES = {
    "imports": "loading parts of framejit and torch on their first use",
    "trace": "interpreting the bytecode",
    "fake_tensors": "running operators on fake tensors, for their shapes",
    "codegen": "generating the code that runs instead",
    "backend": "backends' own work, what is below left out",
    "lowering": "the native compiler: operators to loops, fusion, printing",
    "c_compile": "the C compiler, or loading what it made before",
    "triton_compile": "Triton, or loading what it made before",
    "tuning": "running and measuring candidates",
    "guards": "building guards, and checking those that a call failed",
    "measuring": "explain's own measuring of guards",
}
SHORTEST = 2e-4  # seconds: what is shorter is counted, but has no span


@record
class Span:
    """When a phase ran, in seconds of time.perf_counter(); `depth` phases were open around it."""

    phase: str
    start: float
    end: float
    depth: int


class Clock:
    """Measures the phases of a compile. late: is given the phase and the seconds of what runs after
    the compile is over, such as decisions of the autotuner at a later call."""

    def __init__(self, late: Callable[[str, float], None] | None = None) -> None:
        self.seconds: dict[str, float] = {}
        self.spans: list[Span] = []
        self.over = False
        self._late = late
        self._open = threading.local()  # backends may work in other threads

    def phase(self, name: str, *, shown: bool = True) -> Lap:
        """A context manager around one of PHASES. shown: it has a span; what runs once an operator
        has none."""
        return Lap(self, name, shown)

    @property
    def stack(self) -> list[Lap]:
        """This thread's open phases, innermost last."""
        if not hasattr(self._open, "laps"):
            self._open.laps = []
        laps: list[Lap] = self._open.laps
        return laps

    def end_lap(self, lap: Lap, end: float) -> None:
        stack = self.stack
        stack.pop()
        spent = end - lap.start
        if stack:
            stack[-1].inner += spent
        if self.over:
            if not stack and self._late is not None:
                self._late(lap.name, spent)
            return
        self.seconds[lap.name] = self.seconds.get(lap.name, 0.0) + spent - lap.inner
        if lap.shown and spent >= SHORTEST:
            self.spans.append(Span(lap.name, lap.start, end, len(stack)))


class Lap:
    """One time that a phase runs. `inner`: seconds of the phases in it."""

    __slots__ = ("clock", "inner", "name", "shown", "start")

    def __init__(self, clock: Clock, name: str, shown: bool) -> None:
        self.clock, self.name, self.inner, self.shown = clock, name, 0.0, shown

    def __enter__(self) -> None:
        self.clock.stack.append(self)
        self.start = time.perf_counter()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.clock.end_lap(self, time.perf_counter())
