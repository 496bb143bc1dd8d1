"""Operators, comparisons, subscripts, formatting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .....errors import GraphBreak
from ....pycode.call_completion import DROPPED
from ....pycode.instr import Instr, Op
from ....values import operators as operate
from ....values.constant import Constant
from ....values.deferred_literal import join_parts
from ....values.models.text import builtin_format, builtin_repr, builtin_str
from ....values.objects.special_methods import method_in_python
from ....values.operation import UNARY
from ....values.tensor.symbolic_number import SymbolicNumber
from ..handlers import handles
from .calls import call_value

if TYPE_CHECKING:
    from ....values.base import Value
    from ..interpreter import Interpreter


@handles(Op.UNARY)
def unary(frame: Interpreter, instr: Instr) -> None:
    value = frame.pop()
    found = method_in_python(frame.tx, value, UNARY[instr.arg].name) if instr.arg in UNARY else None
    frame.push(
        operate.unary(frame.tx, instr.arg, value)
        if found is None
        else call_value(frame, found, [], {})
    )


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
    if left is not right and may_be_another_float(left, right):
        raise GraphBreak("unsupported-operator", "`is` between two equal floats")
    frame.push(Constant(frame.tx.objects.is_same(left, right) != instr.arg))


def may_be_another_float(left: Value, right: Value) -> bool:
    """Whether two values are equal floats, at least one of which varies between calls, so that the
    object is not known."""
    floats = left.python_type() is float and right.python_type() is float
    varies = isinstance(left, SymbolicNumber) or isinstance(right, SymbolicNumber)
    return floats and varies and repr(left.constant()) == repr(right.constant())


@handles(Op.CONTAINS_OP)
def contains_op(frame: Interpreter, instr: Instr) -> None:
    container, item = frame.pop(), frame.pop()
    frame.push(Constant(operate.contains(frame.tx, item, container) != instr.arg))


@handles(Op.SUBSCR)
def subscr(frame: Interpreter, instr: Instr) -> None:
    key, container = frame.pop(), frame.pop()
    found = method_in_python(frame.tx, container, "__getitem__")
    frame.push(
        container.item(frame.tx, key) if found is None else call_value(frame, found, [key], {})
    )


@handles(Op.STORE_SUBSCR)
def store_subscr(frame: Interpreter, instr: Instr) -> None:
    key, container, value = (frame.pop() for _ in range(3))
    found = method_in_python(frame.tx, container, "__setitem__")
    if found is None:
        container.set_item(frame.tx, key, value)
    else:
        call_value(frame, found, [key, value], {}, DROPPED)


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
    frame.push(join_parts([frame.tx.look(part) for part in frame.popn(instr.arg)]))
