"""The symbolic interpreter: runs one frame, whose state the opcode handlers change. It has no rules
of Python versions and emits no code."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ....errors import GraphBreak, SkipFrame
from ....guards.source import Source
from ...pycode.call_completion import INITIALISED, CallCompletion
from ...pycode.instr import DecodedCode, Op
from ...values.base import ObservedException, Value
from ...values.constant import Constant
from ...values.objects.exception import ExceptionValue
from ..trace import Trace
from .frame_state import FrameState
from .handlers import HANDLERS
from .outcome import BreakReached, GroupMark, Restart, Returned, Yielded
from .suspended_generators import BY_EXCEPTION
from .throwing import throw

# instructions at which most breaks come; a break at another one starts the capture over
MARKED = frozenset({Op.CALL, Op.CALL_FUNCTION_EX, Op.JUMP_IF, Op.JUMP_IF_OR_POP, Op.UNARY})


class Interpreter(FrameState):
    """A frame, and how it runs."""

    tx: Trace

    def __init__(
        self,
        tx: Trace,
        decoded: DecodedCode,
        globals_: dict[str, Any],
        globals_path: Source | None,
        slots: list[Value | None],
    ) -> None:
        super().__init__(decoded, globals_, globals_path, slots)
        self.tx = tx
        # the frame that this one, resumed after a break, waits for
        self.awaited: Interpreter | None = None
        self.mark: GroupMark | None = None  # of a group that may break

    def run(self) -> Value:
        """Interprets to the return of the frame; returns its value."""
        outcome = self._enter()
        assert isinstance(outcome, Returned)
        return outcome.value

    def resume(self, sent: Value | None) -> tuple[bool, Value]:
        """Runs a generator's frame to its next yield: (True, yielded) or (False, returned). None
        starts it."""
        if sent is not None:
            self.push(sent)
        outcome = self._enter()
        return isinstance(outcome, Yielded), outcome.value

    def throw(self, error: Value) -> tuple[bool, Value]:
        """Resumes the frame as `resume` does, and raises at the yield, or in the generator of a
        `yield from` there."""
        outcome = self._enter(error)
        return isinstance(outcome, Yielded), outcome.value

    def _enter(self, thrown: Value | None = None) -> Returned | Yielded:
        """Runs the frame until it returns or yields; with an exception, by throwing it in first. A
        break or exception that leaves it learns where it happened."""
        self.tx.frames.append(self)
        try:
            return (None if thrown is None else throw(self, thrown)) or self._loop()
        except GraphBreak as stop:
            stop.chain.append(self.where())
            if stop.position is None and self.resumable:
                stop.position, stop.mark = self.position, self.state_to_go_back_to()
            raise
        except ObservedException as error:
            # its traceback, which the program may keep, gets an entry of the caller
            if error.value.source is not None:
                raise Restart(
                    self.tx.frames.break_position(),
                    GraphBreak("exception-leaves", error.cls.__name__),
                ) from error
            if error.position is None and self.resumable:
                error.position = self.position
            # its traceback keeps the frame's values
            if self.tx.generators and not issubclass(error.cls, StopIteration | GeneratorExit):
                left = [
                    [*other.stack, *other.slots] for other in self.tx.frames if other is not self
                ]
                self.tx.generators.require_reachable([[error.value], *left], BY_EXCEPTION)
            raise
        except RecursionError:
            if not self.resumable:
                raise
            deep = GraphBreak("too-deep", " (Python's recursion limit)")
            deep.chain.append(self.where())
            deep.position = self.position
            raise deep from None
        finally:
            self.tx.frames.pop()

    def _loop(self) -> Returned | Yielded:
        """Runs the handler of one instruction after the other, until one ends the frame."""
        instrs = self.decoded.instrs
        work = self.tx.work
        if self.awaited is not None:
            self.await_result()
        while True:
            index = self.pc
            self.current = instr = instrs[index]
            if instr.starts_group:
                self.start_group(index)
            self.pc = index + 1
            work.count()
            try:
                outcome = HANDLERS[instr.op](self, instr)
            except ObservedException as error:
                self.unwind(error, index)
                continue
            if outcome is not None:
                return outcome

    def start_group(self, index: int) -> None:
        """An instruction group starts at `index`: a break could be made here."""
        self.group, self.position = index, self.tx.work.instructions
        if self.position == self.tx.work.stop_at:
            raise self.stop_here()
        if self.resumable and self.current.op in MARKED:
            self.mark = self.mark_group()

    def mark_group(self) -> GroupMark:
        """The state at the start of the current group."""
        tx = self.tx
        return GroupMark(
            self.position,
            tuple(self.stack),
            tuple(self.slots),
            tx.graph.mark(),
            len(tx.guards),
            self.rarely_changed(),
        )

    def rarely_changed(self) -> tuple[Any, ...]:
        """What most groups leave as it is, in a form that shows changes."""
        tx = self.tx
        asked = tx.symbols.shapes.asked if tx.symbols.exist else 0
        handled = tx.exceptions.handled
        return tx.effects.version, tx.modes.mark(), tx.generators.mark(), handled, asked

    def state_to_go_back_to(self) -> GroupMark | None:
        """The state at the start of the current group, with the frames as they were; None where
        more has changed since than what a break there can undo."""
        mark = self.mark
        if mark is None or mark.position != self.position:
            return None
        if mark.unchanged != self.rarely_changed():
            return None
        self.stack[:], self.slots[:] = mark.stack, mark.slots
        return replace(mark, frames=self.tx.frames.broken_frames())

    def stop_here(self) -> Exception:
        """The end of the capture in this frame, at the position of the break."""
        if not self.resumable:
            return SkipFrame("a second capture took another path than the first")
        return BreakReached(self.tx.frames.broken_frames())

    def await_result(self) -> None:
        """Completes the call that this frame waits for."""
        awaited, self.awaited = self.awaited, None
        assert awaited is not None
        try:
            result = awaited.run()
        except ObservedException as error:
            self.unwind(error, self.group)
        else:
            if not self.complete(awaited.completion, result):
                raise SkipFrame("Python has to complete this instruction")
            self.pc = self.decoded.group_end(self.group)

    def complete(self, completion: CallCompletion, result: Value) -> bool:
        """Pushes the result that an instruction makes of the return of its callee; False if only
        Python can do that."""
        items = self.popn(completion.takes)
        if completion.refuses(result.constant() if result.is_constant() else result):
            return False
        if completion.leaves:
            self.push(items[0] if completion is INITIALISED else result)
        return True

    def unwind(self, error: ObservedException, index: int) -> None:
        """Goes to the handler of an exception raised at `index`, or raises it in the caller."""
        handler = self.decoded.handlers[index]
        if handler is None:
            raise error
        if error.value.source is None:
            here = self.tx.frames.break_position() if error.position is None else error.position
            outside = self.tx.modes.position_outside_levels()
            if outside is not None:  # Python raises again from there
                here = min(here, outside)
            position = self.tx.exceptions.raised_at.setdefault(error.value, here)
            if isinstance(error.value, ExceptionValue):
                error.value.created_at = position
        del self.stack[handler.depth :]
        if handler.lasti:
            self.push(Constant(self.decoded.instrs[index].offset // 2))
        self.push(error.value)
        self.pc = handler.target
