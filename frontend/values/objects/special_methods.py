"""Operators by special methods, of classes in Python and of dictionaries: Python's dispatch to
__iadd__, __add__ and __radd__, to __lt__ and __gt__."""

from __future__ import annotations

import types

import torch

from ..base import Value
from ..constant import Constant
from ..containers.mapping import DictValue
from ..context import TraceContext
from ..functions.builtin_function import BuiltinValue
from ..functions.method import MethodValue
from ..operation import COMPARE, Operation
from ..tensor.tensor import TensorValue
from ..tensor.tensor_subclass import TORCHS, TensorObject, call_unwrapped, dispatch_operation
from .mro import lookup
from .user_object import UserObject

# the rules


def operate_by_methods(tx: TraceContext, op: Operation, left: Value, right: Value) -> Value | None:
    """left op right, where an operand is an object or a dictionary; None for others, and where no
    method answers."""
    if not (isinstance(left, UserObject | DictValue) or isinstance(right, UserObject | DictValue)):
        return None
    if left_to_torch(left, op.name) and left_to_torch(right, op.reflected):
        return apply_by_torch(tx, op, left, right)
    for receiver, name, argument in attempts_of(op, left, right):
        found = special_of(tx, receiver, name)
        if found is not None:
            result = found.call(tx, [argument], {})
            if not result.is_not_implemented():
                return result
    return None


def compare_by_methods(tx: TraceContext, op: Operation, left: Value, right: Value) -> Value | None:
    """left op right, where an operand is an object; None for others."""
    if not (isinstance(left, UserObject) or isinstance(right, UserObject)):
        return None
    if left_to_torch(left, op.name) and left_to_torch(right, op.reflected):
        return apply_by_torch(tx, op, left, right)
    attempts = [(left, op.name, right), (right, op.reflected, left)]
    for receiver, name, argument in attempts if is_first(left, right) else attempts[::-1]:
        if isinstance(receiver, UserObject):
            result = compare_by_method(tx, op, receiver, name, argument)
            if result is not None:
                return result
    if op.is_equality:
        return Constant(op.answer(tx.objects.is_same(left, right)))
    raise not_supported(tx, op, left, right)


def apply_by_torch(tx: TraceContext, op: Operation, left: Value, right: Value) -> Value:
    """An operator that torch has for instances of tensor subclasses."""
    if not tx.modes.subclasses_off:
        return dispatch_operation(tx, op.written, [left, right], {})
    operate = tx.objects.compare if op.sign in COMPARE else tx.objects.operate
    return call_unwrapped(tx, lambda tx, a, b: operate(op.sign, a, b), [left, right], {})


def attempts_of(op: Operation, left: Value, right: Value) -> list[tuple[Value, str, Value]]:
    """(receiver, method, argument) in the order in which Python tries them."""
    attempts = [(left, op.name, right)]
    if left.python_type() is not right.python_type():  # else the reflected method is not tried
        attempts.append((right, op.reflected, left))
    if isinstance(right, UserObject | DictValue) and not is_first(left, right):
        mine, other = (lookup(side.python_type(), op.reflected)[1] for side in (left, right))
        if other is not mine:  # inherited, it gets no precedence
            attempts.reverse()
    if op.in_place is not None:
        attempts.insert(0, (left, op.in_place, right))
    return attempts


def compare_by_method(
    tx: TraceContext, op: Operation, receiver: UserObject, name: str, argument: Value
) -> Value | None:
    """The result of the object's own method. None where the method returns NotImplemented, or is
    the one of `object`, which compares identities."""
    found = receiver.special_method(tx, name)
    if found is None:
        return None
    if not is_objects_own(found):
        result = found.call(tx, [argument], {})
        return None if result.is_not_implemented() else result
    if op.sign != "!=":
        return None
    equals = receiver.special_method(tx, "__eq__")  # object.__ne__ is the opposite of it
    if equals is None or is_objects_own(equals):
        return None
    answer = equals.call(tx, [argument], {})
    return None if answer.is_not_implemented() else Constant(not answer.truth(tx))


def not_supported(tx: TraceContext, op: Operation, left: Value, right: Value) -> Exception:
    """The TypeError of operands that have no such operator."""
    mine, other = left.python_type().__name__, right.python_type().__name__
    if op.sign in COMPARE:
        text = f"'{op.sign}' not supported between instances of '{mine}' and '{other}'"
    else:
        sign = "** or pow()" if op.sign == "**" else op.sign
        text = f"unsupported operand type(s) for {sign}: '{mine}' and '{other}'"
    return tx.exceptions.new(TypeError, text)


# what classes have


def special_of(tx: TraceContext, receiver: Value, name: str) -> Value | None:
    """The method for an operator that an object's or a dictionary's class has, bound."""
    if isinstance(receiver, DictValue):
        return receiver.attribute(tx, name) if lookup(receiver.cls, name)[0] is not None else None
    return receiver.special_method(tx, name) if isinstance(receiver, UserObject) else None


def method_in_python(tx: TraceContext, value: Value, name: str) -> Value | None:
    """The special method that an object's class defines in Python, bound."""
    if type(value) is not UserObject or type(lookup(value.cls, name)[1]) is not types.FunctionType:
        return None
    return value.special_method(tx, name)


def is_first(left: Value, right: Value) -> bool:
    """Whether Python calls the left operand's method before the right one's."""
    mine, other = left.python_type(), right.python_type()
    return other is mine or mine not in other.__mro__  # no __subclasscheck__ is called


def is_objects_own(method: Value | None) -> bool:
    """Whether a bound method is one that object gives to all classes."""
    function = method.function if isinstance(method, MethodValue) else None
    return (
        isinstance(function, BuiltinValue)
        and getattr(function.real, "__objclass__", None) is object
    )


def left_to_torch(value: Value, name: str) -> bool:
    """Whether torch handles an operator on this operand, since its class does not define the method
    of this name."""
    if isinstance(value, TensorObject):
        return lookup(value.cls, name)[0] in TORCHS
    return isinstance(value, TensorValue) or value.is_constant()


def has_custom_getattr(cls: type) -> bool:
    """Whether a class runs Python when torch asks it for `__torch_function__`, which it lacks."""
    if lookup(cls, "__torch_function__")[0] is not None:
        return False
    return any(
        lookup(cls, name)[0] not in (None, object, torch.nn.Module)
        for name in ("__getattr__", "__getattribute__")
    )
