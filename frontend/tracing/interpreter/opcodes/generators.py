"""yield and yield from, in frames that are consumed inside the trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .....errors import GraphBreak
from ....pycode.instr import Instr, Op
from ....values.base import ObservedException, Value
from ....values.constant import Constant
from ....values.iterators.generator import GeneratorValue, stopped_inside
from ....values.objects.current_exception import HandledException
from ....values.objects.exception import ExceptionValue
from ....values.objects.user_object import UserObject
from ..outcome import Yielded
from .table import handles

if TYPE_CHECKING:
    from ..interpreter import Interpreter


@handles(Op.RETURN_GENERATOR)
def return_generator(frame: Interpreter, instr: Instr) -> None:
    frame.push(Constant(None))


@handles(Op.YIELD_VALUE)
def yield_value(frame: Interpreter, instr: Instr) -> Yielded:
    return Yielded(frame.pop())


@handles(Op.GET_YIELD_FROM_ITER)
def get_yield_from_iter(frame: Interpreter, instr: Instr) -> None:
    value = frame.pop()
    frame.push(value if isinstance(value, GeneratorValue) else value.iterator(frame.tx))


@handles(Op.SEND)
def send(frame: Interpreter, instr: Instr) -> None:
    tx = frame.tx
    value, receiver = frame.pop(), frame.peek()
    try:
        if isinstance(receiver, GeneratorValue):
            frame.push(receiver.send(tx, value))
            return
        if value.python_type() is not type(None):
            frame.push(receiver.method(tx, "send", [value], {}))
            return
        item = receiver.advance(tx)
    except ObservedException as error:
        if not issubclass(error.cls, StopIteration):
            raise
        finish(frame, instr, error.value.attribute(tx, "value"))
        return
    frame.push(item)


def finish(frame: Interpreter, instr: Instr, returned: Value) -> None:
    """Ends a SEND whose receiver has returned."""
    frame.pop()
    frame.push(returned)
    frame.pc = instr.target


def throw(frame: Interpreter, error: Value) -> Yielded | None:
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


@handles(Op.END_SEND)
def end_send(frame: Interpreter, instr: Instr) -> None:
    value = frame.pop()
    frame.pop()
    frame.push(value)


@handles(Op.CLEANUP_THROW)
def cleanup_throw(frame: Interpreter, instr: Instr) -> None:
    error = frame.pop()
    if not issubclass(error.python_type(), StopIteration):
        raise ObservedException(error)
    frame.popn(2)
    frame.push(Constant(None))
    frame.push(error.attribute(frame.tx, "value"))


@handles(Op.STOPITERATION_ERROR)
def stopiteration_error(frame: Interpreter, instr: Instr) -> None:
    error = frame.pop()
    if issubclass(error.python_type(), StopIteration):
        error = stopped_inside(frame.tx, error).value
    frame.push(error)
