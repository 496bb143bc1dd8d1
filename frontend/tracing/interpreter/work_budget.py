"""WorkBudget: limits how many instructions one capture interprets, in all and in one unrolled
loop."""

from __future__ import annotations

from dataclasses import dataclass
from types import CodeType

from ....errors import GraphBreak, PostponedCompile
from ....guards.guard import Guard
from ....options import Options
from ...pycode.instr import Op
from ...values.iterators.iterator import VARYING_COMPREHENSION, VARYING_LOOP
from ..uncaptured_code import FirstRun, UncapturedCode
from .frame_state import FrameState
from .outcome import Restart

OPERATION = 200  # instructions that cost as much as an operation on fake tensors, or on symbols


@dataclass
class LoopIterations:
    """A loop in one frame: the work done before its first iteration, where a break before it can be
    made, and iterations so far."""

    work: int
    position: int
    count: int = 0


class WorkBudget:
    """Counts instructions against `trace_budget`, and a loop's work against `unroll_budget`."""

    def __init__(self, options: Options, uncaptured: UncapturedCode, stop_at: int) -> None:
        self.options = options
        self.uncaptured = uncaptured
        # the position of the break, where it is known beforehand (outcome.py); -1 for none
        self.stop_at = stop_at
        self.instructions = 0
        self._iterations: dict[tuple[FrameState, int], LoopIterations] = {}

    def count(self) -> None:
        """Counts one instruction, or one step of a loop in C that the program drives."""
        self.instructions += 1
        if self.instructions > self.options.trace_budget:
            raise GraphBreak("too-long", str(self.options.trace_budget))

    def start_iteration(self, frame: FrameState, target: int) -> None:
        """Counts an iteration, when a frame jumps back to the start of a loop. The loop is left to
        Python once unrolling it exceeds the budget."""
        tx, code = frame.tx, frame.decoded.code
        if self.uncaptured.has_varying_loop(code, target):
            raise GraphBreak("unsupported-value", VARYING_LOOP)
        if self.uncaptured.has_loop(code, target):
            raise GraphBreak("long-loop", str(self.options.unroll_iterations))
        symbolic_work = tx.symbols.shapes.asked if tx.symbols.exist else 0
        work = self.instructions + OPERATION * (len(tx.graph.nodes) + symbolic_work)
        iterations = self._iterations.get((frame, target))
        if iterations is None:
            iterations = self._iterations[frame, target] = LoopIterations(
                work, tx.frames.break_position()
            )
        iterations.count += 1
        if (
            iterations.count > self.options.unroll_iterations
            and work - iterations.work > self.options.unroll_budget
        ):
            self.uncaptured.add_loop(code, target)
            raise Restart(
                iterations.position, GraphBreak("long-loop", str(self.options.unroll_iterations))
            )

    def leave_loop_to_python(self, frame: FrameState, target: int) -> None:
        """Breaks in front of a loop whose length varies: what it does is compiled for an
        iteration."""
        if frame.decoded.instrs[target].op is Op.FOR_ITER:
            self.uncaptured.add_loop(frame.decoded.code, target, varies=True)
            raise GraphBreak("unsupported-value", VARYING_LOOP)

    def leave_comprehension_to_python(self, code: CodeType) -> None:
        """Breaks in front of a comprehension whose length varies. It is not captured by itself
        either."""
        self.uncaptured.add_varying_comprehension(code)
        raise GraphBreak("unsupported-value", VARYING_COMPREHENSION)

    def leave_first_run_to_python(
        self, obj: object, what: str, guard: Guard | None, when: FirstRun = FirstRun.HERE
    ) -> None:
        """Has Python run this call of the root frame when it first meets the object, as code
        compiled for the first run would never run again. Not if the user wants graphs at once.
        guard: by which another process knows such a call."""
        if self.options.is_economical and self.uncaptured.add_first_run(obj, when):
            raise PostponedCompile(what, guard)

    def release_objects(self) -> None:
        self._iterations.clear()
