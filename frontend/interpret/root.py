"""The root frame of a capture: interpreted step by step, so that a break loses one raw instruction group."""
from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any

from ...errors import GraphBreak
from ...guards.source import ClosureSource, SequenceItem, SlotSource, Source
from ...options import Options
from ..pycode.instr import DecodedCode
from ..pycode.resume import ResumePoint
from ..values.base import NULL, Lazy, Observed, Value
from ..values.function import CellValue, existing_cell
from ..values.handled import Handled, LastInstruction
from .capture import Break, Capture, Return
from .interpreter import Interpreter
from .opcodes import HANDLERS
from .outcome import Returned
from .trace import Trace
from .variation import Variation


class Restart(Exception):  # noqa: N818 - it steers: capture again and break at an earlier step
    """What follows `step` cannot be handed on to Python, so the break must come at that step."""

    def __init__(self, step: int, reason: GraphBreak) -> None:
        self.step, self.reason = step, reason


class RootInterpreter(Interpreter):
    """The frame that was called. Marks each group's start; a break takes everything back to the last mark."""

    def __init__(self, tx: Trace, decoded: DecodedCode, slots: list[Value | None], stop: Restart | None) -> None:
        function = tx.function
        super().__init__(tx, decoded, function.__globals__, tx.globals_path(function.__globals__), slots)
        self.stop = stop
        self.caught: list[int] = []  # steps whose exception a handler of this frame is handling now

    def capture(self) -> Return | Break:
        tx, instrs = self.tx, self.decoded.instrs
        tx.frames.append(self)
        try:
            while True:
                index = self.pc
                self.current = instr = instrs[index]
                if instr.starts_group:
                    self._mark(index)
                self.pc = index + 1
                tx.instructions += 1
                try:
                    if self.stop is not None and tx.step == self.stop.step:
                        raise self.stop.reason
                    outcome = HANDLERS[instr.op](self, instr)
                except Observed as error:
                    self._unwind_at_root(error, index)
                    continue
                except GraphBreak as stop:
                    return self._broken(stop)
                except RecursionError:
                    return self._broken(GraphBreak("too-deep", "more than Python's stack allows,"))
                if isinstance(outcome, Returned):
                    return Return(outcome.value)
        finally:
            tx.frames.clear()

    def _mark(self, index: int) -> None:
        tx = self.tx
        tx.step += 1
        tx.effects.next_epoch()
        self._mark_state = (index, list(self.stack), list(self.slots), tx.graph.mark(), tx.modes.mark(), len(tx.guards), tx.handled)

    def _unwind_at_root(self, error: Observed, index: int) -> None:
        if self.decoded.handlers[index] is None:
            reason = GraphBreak("exception-leaves", error.cls.__name__)
            raise Restart(self.caught[0] if self.caught else self.tx.step, reason)
        if isinstance(error.value, Value) and error.value.source is None:
            self.caught.append(self.tx.step)
        self.unwind(error, index)

    def _broken(self, reason: GraphBreak) -> Break:
        if self.caught and self.tx.handled is not None and self.tx.handled.source is None:
            raise Restart(self.caught[0], reason)
        tx = self.tx
        index, stack, slots, graph, modes, guards, tx.handled = self._mark_state
        tx.effects.rollback()
        tx.graph.rollback(graph)
        tx.modes.rollback(modes)
        tx.forget_guards(guards)
        self.stack, self.slots = stack, slots
        self.current = self.decoded.instrs[index]
        reason.chain.append(self.where())
        return Break(index, tuple(stack), tuple(slots), tx.handled, reason, reason.chain[0])


def capture_call(
    options: Options,
    decoded: DecodedCode,
    function: types.FunctionType,
    variation: Variation,
    arguments: Sequence[Any],
    stop: Restart | None,
) -> Capture:
    """Captures a frame from its start, given its argument slots as they are at entry."""
    tx = Trace(options, function, variation)
    slots: list[Value | None] = [None] * len(decoded.slots)
    for index, obj in enumerate(arguments):
        slots[index] = Lazy(obj, SlotSource(index, decoded.slots[index]))
    frame = RootInterpreter(tx, decoded, slots, stop)
    closure = [existing_cell(tx, cell, ClosureSource(i, decoded.code.co_freevars[i])) for i, cell in enumerate(function.__closure__ or ())]
    frame.bind_cells(closure)
    for slot in decoded.cells:
        cell = slots[slot]
        assert isinstance(cell, CellValue)
        cell.slot = slot
    return finish(tx, frame, "args")


def capture_rest(
    options: Options,
    decoded: DecodedCode,
    function: types.FunctionType,
    variation: Variation,
    point: ResumePoint,
    state: tuple[Any, ...],
    stop: Restart | None,
) -> Capture:
    """Captures what follows a break, given the state tuple."""
    tx = Trace(options, function, variation)
    slots: list[Value | None] = [None] * len(decoded.slots)
    root = SlotSource(0, "state")
    cells = decoded.cells | set(decoded.frees)
    at = 0
    for slot in sorted(point.bound):
        path = SequenceItem(root, at)
        slots[slot] = _cell(tx, state[at], path) if slot in cells else Lazy(state[at], path)
        at += 1
    frame = RootInterpreter(tx, decoded, slots, stop)
    frame.pc = point.index
    for kind in point.stack:
        if kind == "null":
            frame.stack.append(NULL)
            continue
        value = Lazy(state[at], SequenceItem(root, at))
        at += 1
        frame.stack.append(_stack_item(tx, kind, value))
    return finish(tx, frame, "state")


def finish(tx: Trace, frame: RootInterpreter, entry: str) -> Capture:
    try:
        exit_ = frame.capture()
    except BaseException:
        tx.modes.close(None)
        raise
    tx.modes.close(tx)
    tx.graph.drop_idle()
    return Capture(frame.decoded, tx, exit_, entry)


def _cell(tx: Trace, real: Any, path: Source) -> Value:
    if isinstance(real, types.CellType):
        return existing_cell(tx, real, path)
    return Lazy(real, path)


def _stack_item(tx: Trace, kind: str, value: Lazy) -> Value:
    if kind == "exc":
        exception = tx.look(value)
        handled = Handled(tx.handled, exception)
        tx.handled = exception
        return handled
    if kind == "lasti":
        return LastInstruction(value.object, value.source)
    return value

