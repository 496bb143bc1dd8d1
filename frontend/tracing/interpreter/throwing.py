"""An exception that is thrown into a generator's frame."""

from __future__ import annotations

from ....errors import GraphBreak
from ...pycode.instr import Instr, Op
from ...values.base import ObservedException, Value
from ...values.constant import Constant
from ...values.context import InterpretedFrame
from ...values.iterators.generator import GeneratorValue
from ...values.objects.current_exception import HandledException
from ...values.objects.exception import ExceptionValue
from ...values.objects.user_object import UserObject
from .outcome import Yielded


def finish(frame: InterpretedFrame, instr: Instr, returned: Value) -> None:
    """Ends a SEND whose receiver has returned."""
    frame.pop()
    frame.push(returned)
    frame.pc = instr.target


def throw(frame: InterpretedFrame, error: Value) -> Yielded | None:
    """Raises in a frame that waits in a yield. In a `yield from`, the inner iterator gets the
    exception first, and may yield again."""
    instr = frame.decoded.instrs[frame.pc - 2]
    raised = ObservedException(error)
    handles_one = any(isinstance(item, HandledException) for item in frame.stack)
    if instr.op is Op.SEND:
        inner = frame.peek()
        leaves = issubclass(error.python_type(), GeneratorExit)
        if (
            handles_one
            or isinstance(inner, UserObject)
            or not (isinstance(inner, GeneratorValue) or inner.source is None)
        ):
            raise inner.unsupported_use("an exception thrown through it")
        try:
            if isinstance(inner, GeneratorValue):
                answer = inner.method(
                    frame.tx, "close" if leaves else "throw", [] if leaves else [error], {}
                )
                if not leaves:
                    return Yielded(answer)
        except ObservedException as stop:
            if issubclass(stop.cls, StopIteration) and not leaves:
                finish(frame, instr, stop.value.attribute(frame.tx, "value"))
                return None
            raised = stop
    elif handles_one:
        if not isinstance(error, ExceptionValue) or error.source is not None:
            raise GraphBreak("exception-leaves", f"{error.describe()}, which existed before,")
        error.happens_during(frame.tx, frame.tx.exceptions.handled)
    frame.push(Constant(None))
    frame.unwind(raised, frame.pc - 1)
    return None
