"""yield and yield from, in frames that are consumed inside the trace."""
from __future__ import annotations

from typing import TYPE_CHECKING

from ...pycode.instr import Instr, Op
from ...values.base import Observed
from ...values.constant import Constant
from ...values.generator import GeneratorValue, stopped_inside
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
        item = receiver.next(tx)
    except Observed as error:
        if error.cls is not StopIteration:
            raise
        frame.pop()
        frame.push(error.value.attribute(tx, "value"))
        frame.pc = instr.target
        return
    if item is not None:
        frame.push(item)
        return
    frame.pop()
    frame.push(Constant(None))
    frame.pc = instr.target


@handles(Op.END_SEND)
def end_send(frame: Interpreter, instr: Instr) -> None:
    value = frame.pop()
    frame.pop()
    frame.push(value)


@handles(Op.CLEANUP_THROW)
def cleanup_throw(frame: Interpreter, instr: Instr) -> None:
    error = frame.pop()
    if not issubclass(error.python_type(), StopIteration):
        raise Observed(error)
    frame.popn(2)
    frame.push(Constant(None))
    frame.push(error.attribute(frame.tx, "value"))


@handles(Op.STOPITERATION_ERROR)
def stopiteration_error(frame: Interpreter, instr: Instr) -> None:
    error = frame.pop()
    if issubclass(error.python_type(), StopIteration):
        error = stopped_inside(frame.tx, error).value
    frame.push(error)
