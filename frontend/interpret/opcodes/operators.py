"""Operators, comparisons, subscripts, formatting."""
from __future__ import annotations

from typing import TYPE_CHECKING

from ...pycode.instr import Instr, Op
from ...values import operate
from ...values.constant import Constant
from ...values.models.builtins import builtin_format, builtin_repr, builtin_str
from .table import handles

if TYPE_CHECKING:
    from ..interpreter import Interpreter


@handles(Op.UNARY)
def unary(frame: Interpreter, instr: Instr) -> None:
    frame.push(operate.unary(frame.tx, instr.arg, frame.pop()))


@handles(Op.BINARY)
def binary(frame: Interpreter, instr: Instr) -> None:
    right, left = frame.pop(), frame.pop()
    frame.push(operate.binary(frame.tx, instr.arg, left, right))


@handles(Op.COMPARE)
def compare(frame: Interpreter, instr: Instr) -> None:
    right, left = frame.pop(), frame.pop()
    frame.push(operate.compare(frame.tx, instr.arg, left, right))


@handles(Op.IS_OP)
def is_op(frame: Interpreter, instr: Instr) -> None:
    right, left = frame.pop(), frame.pop()
    frame.push(Constant(frame.tx.same(left, right) != instr.arg))


@handles(Op.CONTAINS_OP)
def contains_op(frame: Interpreter, instr: Instr) -> None:
    container, item = frame.pop(), frame.pop()
    frame.push(Constant(operate.contains(frame.tx, item, container) != instr.arg))


@handles(Op.SUBSCR)
def subscr(frame: Interpreter, instr: Instr) -> None:
    key, container = frame.pop(), frame.pop()
    frame.push(container.item(frame.tx, key))


@handles(Op.STORE_SUBSCR)
def store_subscr(frame: Interpreter, instr: Instr) -> None:
    key, container, value = (frame.pop() for _ in range(3))
    container.set_item(frame.tx, key, value)


@handles(Op.DELETE_SUBSCR)
def delete_subscr(frame: Interpreter, instr: Instr) -> None:
    key, container = frame.pop(), frame.pop()
    container.del_item(frame.tx, key)


@handles(Op.FORMAT)
def format_value(frame: Interpreter, instr: Instr) -> None:
    conversion, has_spec = instr.arg
    spec = frame.pop() if has_spec else Constant("")
    value = frame.pop()
    if conversion:
        value = CONVERSIONS[conversion](frame.tx, value)
    frame.push(builtin_format(frame.tx, value, spec))


@handles(Op.CONVERT)
def convert(frame: Interpreter, instr: Instr) -> None:
    frame.push(CONVERSIONS[instr.arg](frame.tx, frame.pop()))


CONVERSIONS = {
    "str": builtin_str,
    "repr": builtin_repr,
    "ascii": lambda tx, value: Constant(ascii(value.constant())),
}


@handles(Op.BUILD_STRING)
def build_string(frame: Interpreter, instr: Instr) -> None:
    frame.push(Constant("".join(frame.tx.look(part).constant() for part in frame.popn(instr.arg))))
