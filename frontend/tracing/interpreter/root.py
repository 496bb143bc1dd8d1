"""The root frame of a capture: interpreted step by step, so that a break loses one raw instruction
group."""

from __future__ import annotations

import types
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ....clock import Clock
from ....errors import GraphBreak, SkipFrame
from ....guards.source import ClosureSource, SequenceItem, SlotSource, Source
from ....options import Options
from ...pycode.instr import DecodedCode, Op
from ...pycode.liveness import is_comprehension, keeps_its_frame
from ...pycode.resume import ResumePoint, SuspendedFrame
from ...values.base import NULL, LazyValue, ObservedException, Value
from ...values.functions.cell import CellValue, existing_cell
from ...values.models.optimizers import FIRST_STEP, optimizer_without_state, without_state
from ...values.objects.current_exception import HandledException, LastInstruction
from ..capture import Capture
from ..sizes.variation import Variation
from ..trace import Trace
from ..uncaptured_code import FirstRun, UncapturedCode
from . import opcodes  # noqa: F401 - its handlers register
from .calls import Calls
from .interpreter import Interpreter
from .opcodes.exceptions import handle_instead
from .outcome import BreakExit, BreakReached, BrokenFrame, Restart, Returned, ReturnExit, RootMark


class RootInterpreter(Interpreter):
    """The frame that was called. Marks each group's start. A break in this frame rolls back to the
    last mark; a break in an inlined frame is made by capturing again up to there."""

    def __init__(
        self, tx: Trace, decoded: DecodedCode, slots: list[Value | None], stop: Restart | None
    ) -> None:
        function = tx.function
        super().__init__(
            tx, decoded, function.__globals__, tx.objects.globals_path(function.__globals__), slots
        )
        self.stop = stop
        self.resumable = True

    def capture(self) -> ReturnExit | BreakExit:
        """Interprets the frame up to its return, a break or an exception that leaves it."""
        tx = self.tx
        tx.frames.append(self)
        tx.frames.root_arguments = list(self.slots)
        try:
            if self.awaited is not None:
                self.await_result()
            outcome = self._loop()
            assert isinstance(outcome, Returned)
            if tx.generators:
                tx.generators.require_reachable([[outcome.value]], "at the return")
            return ReturnExit(outcome.value)
        except GraphBreak as reason:
            return self._break_here(reason)
        except RecursionError:
            return self._break_here(GraphBreak("too-deep", " (Python's recursion limit)"))
        except ObservedException as error:
            position = self.position if error.position is None else error.position
            position = tx.exceptions.raised_at.get(error.value, position)
            if tx.frames.is_compiling_at is not None:  # in eager it may not raise
                position = min(position, tx.frames.is_compiling_at)
            raise Restart(
                position,
                GraphBreak("exception-leaves", error.cls.__name__),
            ) from error
        except BreakReached as here:
            assert self.stop is not None
            return self._break(self.stop.reason, here.frames)
        finally:
            tx.frames.clear()

    def start_group(self, index: int) -> None:
        """Marks the state to which a break rolls back."""
        tx = self.tx
        super().start_group(index)
        tx.effects.next_epoch()
        self._root_mark = RootMark(
            list(self.stack),
            list(self.slots),
            tx.graph.mark(),
            tx.modes.mark(),
            len(tx.guards),
            tx.exceptions.handled,
            tx.generators.mark(),
        )

    def _break_here(self, reason: GraphBreak) -> BreakExit:
        """The break at the start of the current group. Raises Restart where it has to be another
        one."""
        tx = self.tx
        reason.chain.append(self.where())
        outside = tx.modes.position_outside_levels()
        if outside is not None and outside != self.position:
            raise Restart(outside, reason)
        if outside is None and reason.position is not None:
            return self._break_in_call(reason, reason.position)
        mark = self._root_mark
        self.stack, self.slots, tx.exceptions.handled = mark.stack, mark.slots, mark.handled
        tx.effects.rollback()
        tx.graph.rollback(mark.nodes)
        tx.modes.rollback(mark.modes)
        tx.generators.rollback(mark.generators)
        tx.guards.truncate(mark.guards)
        return self._break(reason, tx.frames.broken_frames())

    def _break_in_call(self, reason: GraphBreak, position: int) -> BreakExit:
        """The break at this position in an inlined frame. Raises Restart where the capture cannot
        go back to it."""
        mark, reason.mark = reason.mark, None
        if mark is None or mark.position != position:  # a caller wants it to be earlier
            raise Restart(position, reason)
        self.tx.graph.rollback(mark.nodes)
        self.tx.guards.truncate(mark.guards)
        return self._break(reason, mark.frames)

    def _break(self, reason: GraphBreak, frames: tuple[BrokenFrame, ...]) -> BreakExit:
        """The break at these frames. Raises Restart where an exception is handled that no Python
        frame has raised."""
        tx = self.tx
        handled = [
            value.current
            for frame in frames
            for value in frame.stack
            if isinstance(value, HandledException)
        ]
        positions = [
            tx.exceptions.raised_at[error]
            for error in handled
            if error.source is None and error in tx.exceptions.raised_at
        ]
        if positions and tx.exceptions.handled is not None:
            raise Restart(min(positions), reason)
        if tx.generators:
            tx.generators.require_reachable(
                [self._live_values(frame) for frame in frames], "at a graph break"
            )
        reason.chain = reason.chain or [frame.where() for frame in reversed(frames)]
        return BreakExit(frames, tx.exceptions.handled, reason, reason.chain[0])

    def _live_values(self, frame: BrokenFrame) -> list[Value | None]:
        """The values of a frame that its continuation is given."""
        live = frame.decoded.live_in[frame.index]
        return [*frame.stack, *(value for slot, value in enumerate(frame.slots) if slot in live)]


@dataclass(frozen=True)
class CaptureRequest:
    """What a capture needs besides the frame. `uncaptured`: added to. `stop`:
    the break that ends it, where one is known beforehand."""

    options: Options
    function: types.FunctionType  # the root frame's
    variation: Variation
    uncaptured: UncapturedCode
    stop: Restart | None
    clock: Clock

    def trace(self) -> Trace:
        position = -1 if self.stop is None else self.stop.position
        return Trace(
            self.options,
            self.function,
            self.variation,
            self.uncaptured,
            self.clock,
            Calls,
            position,
        )


def capture_call(
    request: CaptureRequest, decoded: DecodedCode, arguments: Sequence[Any]
) -> Capture:
    """Captures a frame from its start, given its argument slots at entry."""
    if keeps_its_frame(decoded.code):
        raise SkipFrame("it reads its own frame")
    tx, function = request.trace(), request.function
    given: dict[Source, Any] = {
        SlotSource(i, decoded.slots[i]): obj for i, obj in enumerate(arguments)
    }
    optimizer = optimizer_without_state(function, given)
    if optimizer is not None:
        source, obj = optimizer
        tx.work.leave_first_run_to_python(obj, FIRST_STEP, without_state(source), FirstRun.LIKELY)
    slots: list[Value | None] = [None] * len(decoded.slots)
    for index, (slot_source, obj) in enumerate(given.items()):
        slots[index] = LazyValue(obj, slot_source)
    frame = RootInterpreter(tx, decoded, slots, request.stop)
    closure = [
        existing_cell(tx, cell, ClosureSource(i, decoded.code.co_freevars[i]))
        for i, cell in enumerate(function.__closure__ or ())
    ]
    if is_comprehension(decoded.code) and not request.options.fullgraph:
        iterator = slots[0]
        assert iterator is not None
        varying = request.uncaptured.has_varying_comprehension(decoded.code)
        if varying or tx.look(iterator).varies_in_length(tx):
            raise SkipFrame("it loops over a list whose length varies")
    frame.bind_cells(closure)
    for slot in decoded.cells:
        cell = slots[slot]
        assert isinstance(cell, CellValue)
        cell.slot = slot
    return finish(tx, frame, is_continuation=False)


def capture_rest(
    request: CaptureRequest, frames: tuple[SuspendedFrame, ...], state: tuple[Any, ...]
) -> Capture:
    """Captures the code after a break, given the state tuple of the outermost of the frames."""
    tx = request.trace()
    root, *inner = frames
    slots: list[Value | None] = [None] * len(root.decoded.slots)
    frame: Interpreter
    frame = outermost = RootInterpreter(tx, root.decoded, slots, request.stop)
    path: Source = SlotSource(0, "state")
    used = restore(frame, root.point, state, path)
    for suspended in inner:
        state, path = state[used], SequenceItem(path, used)
        decoded = suspended.decoded
        frame.awaited = Interpreter(
            tx,
            decoded,
            suspended.globals,
            tx.objects.globals_path(suspended.globals),
            [None] * len(decoded.slots),
        )
        frame = frame.awaited
        frame.resumable = True
        frame.passthroughs, frame.completion = suspended.passthroughs, suspended.completion
        used = restore(frame, suspended.point, state, path)
    return finish(tx, outermost, is_continuation=True)


def restore(frame: Interpreter, point: ResumePoint, state: tuple[Any, ...], root: Source) -> int:
    """Sets up a frame from the items of its state; returns how many items it takes."""
    tx, decoded = frame.tx, frame.decoded
    cells = decoded.cells | set(decoded.frees)
    at = 0
    for slot in sorted(point.bound):
        path = SequenceItem(root, at, decoded.slots[slot])
        frame.slots[slot] = (
            _cell(tx, state[at], path) if slot in cells else LazyValue(state[at], path)
        )
        at += 1
    frame.pc = frame.group = point.index
    frame.current = decoded.instrs[point.index]
    for kind in point.stack:
        if kind == "null":
            frame.stack.append(NULL)
            continue
        value = LazyValue(state[at], SequenceItem(root, at, f"<{type(state[at]).__name__}>"))
        at += 1
        frame.stack.append(_stack_item(tx, kind, value))
    if (
        decoded.instrs[point.index - 1].op is Op.CHECK_EG_MATCH
        and not (taken := tx.look(frame.stack[-1])).is_constant()
    ):
        handle_instead(frame, taken)  # Python's instruction has told a frame that no longer exists
    return at


def finish(tx: Trace, frame: RootInterpreter, is_continuation: bool) -> Capture:
    try:
        exit_ = frame.capture()
    except BaseException:
        tx.modes.close(None)
        tx.release_objects()
        raise
    tx.modes.close(tx)
    tx.graph.drop_idle()
    return Capture(frame.decoded, tx, exit_, is_continuation)


def _cell(tx: Trace, real: Any, path: Source) -> Value:
    if isinstance(real, types.CellType):
        return existing_cell(tx, real, path)
    return LazyValue(real, path)


def _stack_item(tx: Trace, kind: str, value: LazyValue) -> Value:
    if kind == "exc":
        exception = tx.look(value)
        handled = HandledException(tx.exceptions.handled, exception)
        tx.exceptions.handled = exception
        return handled
    if kind == "lasti":
        return LastInstruction(value.object, value.source)
    return value
