"""yield and yield from, in frames that are consumed inside the trace."""

from __future__ import annotations

from ....pycode.instr import Instr, Op
from ....values.base import ObservedException
from ....values.constant import Constant
from ....values.iterators.generator import GeneratorValue, stopped_inside
from ..handlers import handles
from ..interpreter import Interpreter
from ..outcome import Yielded
from ..throwing import finish


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
    """`yield from` and `await`: passes a value on to the receiver; jumps, with its result, when the
    receiver is done."""
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
