"""Operators: what `a + b`, `a < b`, `-a` mean for two families of values."""

from __future__ import annotations

import collections
import functools
import operator
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from ...errors import GraphBreak
from .base import Value
from .constant import Constant, fold
from .containers import dict_union as merging  # noqa: F401 - methods by which operators go
from .containers.deque import DequeValue, add_items, multiply_deque
from .containers.dict_view import ViewValue
from .containers.mapping import DictValue
from .containers.mapping_proxy import unwrap_proxy
from .containers.sequence import (
    BoundBuiltin,
    BuiltinContainer,
    ListValue,
    Sequence,
    SliceValue,
    TupleValue,
    list_extend,
    one_of,
)
from .containers.set import SetValue
from .containers.set_algebra import SET_OPERATORS, SET_UPDATES, kept_members
from .deferred_literal import concatenate_texts, format_template
from .functions.builtin_function import BuiltinValue
from .functions.method import MethodValue
from .objects.mro import lookup
from .objects.user_object import UserObject
from .objects.weak_reference import WeakReference
from .registry import method
from .tensor.opaque_tensor import OpaqueTensor
from .tensor.symbolic_number import SymbolicNumber, calculate
from .tensor.tensor import TensorValue
from .tensor.tensor_subclass import TORCHS, TensorObject, call_unwrapped, dispatch_operation

if TYPE_CHECKING:
    from .context import TraceContext

BINARY: dict[str, tuple[Callable[..., Any], str]] = {
    "+": (operator.add, "add"),
    "-": (operator.sub, "sub"),
    "*": (operator.mul, "mul"),
    "/": (operator.truediv, "truediv"),
    "//": (operator.floordiv, "floordiv"),
    "%": (operator.mod, "mod"),
    "**": (operator.pow, "pow"),
    "@": (operator.matmul, "matmul"),
    "<<": (operator.lshift, "lshift"),
    ">>": (operator.rshift, "rshift"),
    "&": (operator.and_, "and"),
    "|": (operator.or_, "or"),
    "^": (operator.xor, "xor"),
}
IN_PLACE: dict[str, Callable[..., Any]] = {
    "+=": operator.iadd, "-=": operator.isub, "*=": operator.imul, "/=": operator.itruediv, "//=": operator.ifloordiv,
    "%=": operator.imod, "**=": operator.ipow, "@=": operator.imatmul, "<<=": operator.ilshift, ">>=": operator.irshift,
    "&=": operator.iand, "|=": operator.ior, "^=": operator.ixor,
}  # fmt: skip
COMPARE: dict[str, tuple[Callable[..., Any], str, str]] = {
    "<": (operator.lt, "__lt__", "__gt__"),
    "<=": (operator.le, "__le__", "__ge__"),
    "==": (operator.eq, "__eq__", "__eq__"),
    "!=": (operator.ne, "__ne__", "__ne__"),
    ">": (operator.gt, "__gt__", "__lt__"),
    ">=": (operator.ge, "__ge__", "__le__"),
}
UNARY: dict[str, tuple[Callable[..., Any], str]] = {
    "-": (operator.neg, "__neg__"),
    "+": (operator.pos, "__pos__"),
    "~": (operator.invert, "__invert__"),
}


def binary(tx: TraceContext, op: str, left: Value, right: Value) -> Value:
    """left op right; `op` may be in place ("+=")."""
    in_place = op in IN_PLACE
    plain_op = op[:-1] if in_place else op
    function, name = BINARY[plain_op]
    written = IN_PLACE[op] if in_place else function
    if isinstance(left, SymbolicNumber) or isinstance(right, SymbolicNumber):
        number = calculate(tx, function, left, right, written=written)
        if number is not None:
            return number
    if left.python_type() is str and left.is_constant():
        text = operate_on_text(tx, plain_op, left, right)
        if text is not None:
            return text
    if isinstance(left, TensorValue) or isinstance(right, TensorValue):
        other = right if isinstance(left, TensorValue) else left
        if not isinstance(other, UserObject):
            return tx.graph.call(
                "call_function",
                written if isinstance(left, TensorValue) else function,
                [left, right],
                {},
            )
    ask_in_python(op, left, right)
    if op == "|" and not isinstance(left, UserObject) and not isinstance(right, UserObject):
        left, right = unwrap_proxy(left), unwrap_proxy(right)
    if isinstance(left, UserObject | DictValue) or isinstance(right, UserObject | DictValue):
        if left_to_torch(left, f"__{name}__") and left_to_torch(right, f"__r{name}__"):
            if tx.modes.subclasses_off:
                return call_unwrapped(tx, lambda tx, a, b: binary(tx, op, a, b), [left, right], {})
            return dispatch_operation(tx, written, [left, right], {})
        result = by_methods(tx, name, in_place, left, right)
        if result is not None:
            return result
    if isinstance(left, Sequence | SetValue | ViewValue) or isinstance(right, Sequence):
        result = containers(
            tx, plain_op, in_place, left, right if in_place else concatenation_operand(left, right)
        )
        if result is not None:
            return result
    if left.is_constant() and right.is_constant():
        return fold(tx, written, [left, right], {})
    raise GraphBreak("unsupported-operator", f"{left.describe()} {op} {right.describe()}")


def operate_on_text(tx: TraceContext, op: str, left: Value, right: Value) -> Value | None:
    """left % right and left + right of texts that hold numbers which vary; None for others, which
    are computed now."""
    if op == "+":
        return concatenate_texts(left, right)
    if op != "%" or not isinstance(left, Constant):
        return None
    return format_template(left.object, right.all(tx) if isinstance(right, TupleValue) else [right])


def ask_in_python(op: str, left: Value, right: Value) -> None:
    """A break where an operand is a tensor that graphs do not take, or one that torch asks for
    `__torch_function__`, as often as it likes, in the program's own code."""
    for side in (left, right):
        if isinstance(side, OpaqueTensor):
            raise side.unsupported(op)
    if isinstance(left, TensorValue) and isinstance(right, UserObject) and answers_torch(right.cls):
        raise right.unsupported(f"{op} on the right of a tensor, with a __getattr__ of its own")


def answers_torch(cls: type) -> bool:
    """Whether a class is asked in Python for `__torch_function__`, which it lacks."""
    if lookup(cls, "__torch_function__")[0] is not None:
        return False
    return any(
        lookup(cls, name)[0] not in (None, object, torch.nn.Module)
        for name in ("__getattr__", "__getattribute__")
    )


def left_to_torch(value: Value, name: str) -> bool:
    """Whether an operand leaves an operator, whose method has this name, to torch."""
    if isinstance(value, TensorObject):
        return lookup(value.cls, name)[0] in TORCHS
    return isinstance(value, TensorValue) or value.is_constant()


def method_in_python(tx: TraceContext, value: Value, name: str) -> Value | None:
    """The special method that an object's class defines in Python, bound."""
    if type(value) is not UserObject or type(lookup(value.cls, name)[1]) is not types.FunctionType:
        return None
    return value.special(tx, name)


def is_first(left: Value, right: Value) -> bool:
    """Whether Python asks the left operand before the right one."""
    mine, other = left.python_type(), right.python_type()
    return other is mine or mine not in other.__mro__  # no __subclasscheck__ is asked


def asked_second(tx: TraceContext, sign: str, left: Value, right: Value) -> Value:
    """left sign right, when left's method in Python was asked and did not know."""
    compared = sign in COMPARE
    name = COMPARE[sign][2] if compared else f"__r{BINARY[sign][1]}__"
    mine, other = left.python_type().__name__, right.python_type().__name__
    if not isinstance(right, UserObject) and (compared or not isinstance(right, DictValue)):
        if not compared or sign not in ("==", "!=") or not right.is_constant():
            raise GraphBreak("unsupported-operator", f"{left.describe()} {sign} {right.describe()}")
        return Constant(sign == "!=")
    if compared or right.python_type() is not left.python_type():
        found = special_of(tx, right, name)
        answer = Constant(NotImplemented) if found is None else found.call(tx, [left], {})
        if not (answer.is_constant() and answer.constant() is NotImplemented):
            return answer
    if sign in ("==", "!="):
        return Constant(tx.objects.same(left, right) == (sign == "=="))
    if compared:
        raise tx.exceptions.new(
            TypeError, f"'{sign}' not supported between instances of '{mine}' and '{other}'"
        )
    raise tx.exceptions.new(
        TypeError,
        f"unsupported operand type(s) for {'** or pow()' if sign == '**' else sign}: '{mine}' and '{other}'",
    )


def by_methods(
    tx: TraceContext, name: str, in_place: bool, left: Value, right: Value
) -> Value | None:
    """Python's dispatch to __iadd__, __add__ and __radd__; None when neither side has one that
    answers."""
    attempts: list[tuple[Value, str, Value]] = [
        (left, f"__{name}__", right),
        (right, f"__r{name}__", left),
    ]
    if isinstance(right, UserObject | DictValue):
        inherited = (
            lookup(right.python_type(), f"__r{name}__")[1]
            is lookup(left.python_type(), f"__r{name}__")[1]
        )
        if not is_first(left, right) and not inherited:
            attempts.reverse()
    if in_place:
        attempts.insert(0, (left, f"__i{name}__", right))
    for receiver, asked, argument in attempts:
        found = special_of(tx, receiver, asked)
        if found is not None:
            result = found.call(tx, [argument], {})
            if not (result.is_constant() and result.constant() is NotImplemented):
                return result
    return None


def special_of(tx: TraceContext, receiver: Value, name: str) -> Value | None:
    """The method for an operator that an object's or a dictionary's class has, bound."""
    if isinstance(receiver, DictValue):
        return receiver.attribute(tx, name) if lookup(receiver.cls, name)[0] is not None else None
    return receiver.special(tx, name) if isinstance(receiver, UserObject) else None


def concatenation_operand(left: Value, right: Value) -> Value:
    """The right operand as the concatenation of a list or tuple takes it: of an object, what is
    inside of it."""
    inner = right.base if isinstance(left, Sequence) and isinstance(right, UserObject) else None
    return inner if isinstance(inner, Sequence) else right


def containers(
    tx: TraceContext, op: str, in_place: bool, left: Value, right: Value
) -> Value | None:
    """Concatenation, repetition and set algebra; None for anything else."""
    if isinstance(left, DequeValue) or isinstance(right, DequeValue):
        return deques(tx, op, in_place, left, right)
    if op == "+" and isinstance(left, ListValue) and in_place:
        list_extend(tx, left, right)
        return left
    if (
        op == "+"
        and isinstance(left, Sequence)
        and isinstance(right, Sequence)
        and type(left) is type(right)
    ):
        cls = list if isinstance(left, ListValue) else sum_class(left.cls, right.cls)
        both = type(left)([*left.items, *right.items], None, cls)
        return one_of(
            both, [side for side, rest in ((right, left), (left, right)) if not rest.items]
        )
    if op == "*" and isinstance(left, Sequence) and right.is_constant():
        if in_place and isinstance(left, ListValue):
            items = repeat_items(tx, left, right)
            tx.effects.change(left)
            left.items = items
            return left
        return one_of(type(left)(repeat_items(tx, left, right), None, left.default_class), [left])
    if op == "*" and isinstance(right, Sequence) and left.is_constant():
        return one_of(
            type(right)(repeat_items(tx, right, left), None, right.default_class), [right]
        )
    if (
        op in SET_OPERATORS
        and isinstance(left, SetValue | ViewValue)
        and isinstance(right, SetValue | ViewValue)
    ):
        if isinstance(left, ViewValue) or isinstance(
            right, ViewValue
        ):  # in place, too, a view makes another set
            return combined_with_view(tx, BINARY[op][0], left, right)
        if in_place and left.cls is set:
            SET_UPDATES[op](tx, left, right)
            return left
        return SET_OPERATORS[op](tx, left, right)
    return None


def deques(tx: TraceContext, op: str, in_place: bool, left: Value, right: Value) -> Value | None:
    """The same of deques, which keep to their maxlen."""
    if op == "+" and isinstance(left, DequeValue) and (in_place or isinstance(right, DequeValue)):
        if not in_place:
            return add_items(tx, left, right)  # type: ignore[arg-type]
        left.method(tx, "extend", [right], {})
        return left
    if op == "*" and isinstance(left, DequeValue) and right.is_constant():
        return multiply_deque(tx, left, repeat_items(tx, left, right), in_place=in_place)
    if op == "*" and isinstance(right, DequeValue) and left.is_constant():
        return multiply_deque(tx, right, repeat_items(tx, right, left), in_place=False)
    return None


def combined_with_view(
    tx: TraceContext,
    function: Callable[..., Any],
    left: SetValue | ViewValue,
    right: SetValue | ViewValue,
) -> Value:
    """A set operator of which a side is a dictionary's view: views have an order of their own of
    making the new set."""
    sides = [side.order if isinstance(side, SetValue) else side.real(tx) for side in (left, right)]
    members = [
        side.members if isinstance(side, SetValue) else dict(zip(real, side.list(tx), strict=True))
        for side, real in zip((left, right), sides, strict=True)
    ]
    try:
        made = function(*sides)
    except TypeError as error:
        raise tx.exceptions.new(TypeError, *error.args) from None
    return SetValue(kept_members(made, members), None, set, made)


LONGEST_REPETITION = 1 << 16  # items


def repeat_items(tx: TraceContext, of: Sequence, times: Value) -> list[Value]:
    """The items of a sequence, so many times."""
    number = times.constant()
    if not hasattr(type(number), "__index__"):
        raise tx.exceptions.new(
            TypeError, f"can't multiply sequence by non-int of type '{type(number).__name__}'"
        )
    if len(of.items) * operator.index(number) > LONGEST_REPETITION:
        raise GraphBreak("unsupported-operator", f"{of.describe()} * {number}, which is very long,")
    return of.items * operator.index(number)


@functools.cache
def sum_class(left: type, right: type) -> type:
    """type(left() + right()) of tuples: torch.Size keeps its class or not, by torch's version."""
    made: list[tuple[Any, ...]] = [
        cls() if cls in (tuple, torch.Size) else () for cls in (left, right)
    ]
    return type(made[0] + made[1])


def unary(tx: TraceContext, op: str, value: Value) -> Value:
    if op == "not":
        return Constant(not value.truth(tx))
    function, name = UNARY[op]
    if isinstance(value, SymbolicNumber):
        return calculate(tx, function, value) or value
    if isinstance(value, TensorValue):
        return tx.graph.call("call_function", function, [value], {})
    if isinstance(value, UserObject):
        if left_to_torch(value, name):
            if tx.modes.subclasses_off:
                return call_unwrapped(tx, lambda tx, a: unary(tx, op, a), [value], {})
            return dispatch_operation(tx, function, [value], {})
        found = value.special(tx, name)
        if found is not None:
            return found.call(tx, [], {})
    if isinstance(value, BuiltinContainer) and isinstance(
        lookup(value.python_type(), name)[1], types.FunctionType
    ):  # of a Counter
        return value.method(tx, name, [], {})
    return fold(tx, function, [value], {})


def compare(tx: TraceContext, op: str, left: Value, right: Value) -> Value:
    """left op right for the six comparisons."""
    function, name, reflected = COMPARE[op]
    if isinstance(left, SymbolicNumber) or isinstance(right, SymbolicNumber):
        number = calculate(tx, function, left, right)
        if number is not None:
            return number
    if isinstance(left, TensorValue) or isinstance(right, TensorValue):
        other = right if isinstance(left, TensorValue) else left
        if other.is_none():
            return Constant(op == "!=")
        if not isinstance(other, UserObject):
            return tx.graph.call("call_function", function, [left, right], {})
    ask_in_python(op, left, right)
    if isinstance(left, UserObject) or isinstance(right, UserObject):
        if left_to_torch(left, name) and left_to_torch(right, reflected):
            if tx.modes.subclasses_off:
                return call_unwrapped(tx, lambda tx, a, b: compare(tx, op, a, b), [left, right], {})
            return dispatch_operation(tx, function, [left, right], {})
        return compare_objects(tx, op, left, right, name, reflected)
    if op in ("==", "!="):
        left, right = unwrap_proxy(left), unwrap_proxy(right)
    if left.is_constant() and right.is_constant():
        return fold(tx, function, [left, right], {})
    if isinstance(left, Sequence) and isinstance(right, Sequence):
        return compare_sequences(tx, op, left, right)
    if isinstance(left, SetValue | ViewValue) and isinstance(right, SetValue | ViewValue):
        if "values" in (getattr(left, "what", ""), getattr(right, "what", "")):
            return same_object(tx, op, left, right)
        sets = [side.as_set(tx) if isinstance(side, ViewValue) else side for side in (left, right)]
        return Constant(function(*(set(side.members) for side in sets)))
    if (
        isinstance(left, DictValue)
        and left.cls is collections.Counter
        and isinstance(right, DictValue)
    ):
        answer = left.method(tx, name, [right], {})
        if not (answer.is_constant() and answer.constant() is NotImplemented):
            return answer
    if isinstance(left, DictValue) and isinstance(right, DictValue) and op in ("==", "!="):
        return Constant(equal_dictionaries(tx, left, right) == (op == "=="))
    if isinstance(left, SliceValue) and isinstance(right, SliceValue) and op in ("==", "!="):
        same = all(equal(tx, a, b) for a, b in zip(left.parts, right.parts, strict=True))
        return Constant(same == (op == "=="))
    if op in ("==", "!="):
        if isinstance(left, BoundBuiltin) and isinstance(right, BoundBuiltin):
            return Constant(
                (left.name == right.name and tx.objects.same(left.receiver, right.receiver))
                == (op == "==")
            )
        if isinstance(left, BuiltinValue) and isinstance(right, BuiltinValue):
            return Constant((left.key(tx) == right.key(tx)) == (op == "=="))
        if isinstance(left, WeakReference) and isinstance(right, WeakReference):
            ends = left.call(tx, [], {}), right.call(tx, [], {})
            if not any(end.python_type() is type(None) for end in ends):
                return compare(tx, op, *ends)
        if isinstance(left, MethodValue) and isinstance(right, MethodValue):
            same = tx.objects.same(left.receiver, right.receiver) and tx.objects.same(
                left.function, right.function
            )
            return Constant(same == (op == "=="))
        return Constant(tx.objects.same(left, right) == (op == "=="))
    raise GraphBreak("unsupported-operator", f"{left.describe()} {op} {right.describe()}")


def _comparison(op: str) -> None:
    @method(list, COMPARE[op][1])
    @method(tuple, COMPARE[op][1])
    def compare_base(tx: TraceContext, self: Sequence, other: Value) -> Value:
        """Past what a subclass has under the name."""
        inner = other.base if isinstance(other, UserObject) and other.base is not None else other
        return (
            compare_sequences(tx, op, self, inner)
            if isinstance(inner, type(self))
            else Constant(NotImplemented)
        )


for _op in COMPARE:
    _comparison(_op)


@method(list, "__add__")
@method(tuple, "__add__")
def sequence_add(tx: TraceContext, self: Sequence, other: Value) -> Value:
    inner = other.base if isinstance(other, UserObject) and other.base is not None else other
    if not isinstance(inner, type(self)):
        raise self.unsupported("+")
    return binary(tx, "+", self, inner)


@method(list, "__mul__", "__rmul__")
@method(tuple, "__mul__", "__rmul__")
def sequence_mul(tx: TraceContext, self: Sequence, times: Value) -> Value:
    return binary(tx, "*", self, times)


@method(list, "__iadd__")
def list_iadd(tx: TraceContext, self: ListValue, other: Value) -> Value:
    list_extend(tx, self, other)
    return self.outer or self


@method(list, "__imul__")
def list_imul(tx: TraceContext, self: ListValue, times: Value) -> Value:
    binary(tx, "*=", self, times)
    return self.outer or self


def same_object(tx: TraceContext, op: str, left: Value, right: Value) -> Value:
    """`==` and `!=` of what has no comparison of its own."""
    if op not in ("==", "!="):
        raise GraphBreak("unsupported-operator", f"{left.describe()} {op} {right.describe()}")
    return Constant(tx.objects.same(left, right) == (op == "=="))


def compare_objects(
    tx: TraceContext, op: str, left: Value, right: Value, name: str, reflected: str
) -> Value:
    attempts = [(left, name, right), (right, reflected, left)]
    for receiver, asked, argument in attempts if is_first(left, right) else attempts[::-1]:
        found = receiver.special(tx, asked) if isinstance(receiver, UserObject) else None
        if is_objects_own(found):
            if op == "!=" and isinstance(receiver, UserObject):
                equals = receiver.special(tx, "__eq__")
                if equals is not None and not is_objects_own(equals):
                    answer = equals.call(tx, [argument], {})
                    if not (answer.is_constant() and answer.constant() is NotImplemented):
                        return Constant(not answer.truth(tx))
            continue  # object's own comparison: identity, decided below
        if found is not None:
            result = found.call(tx, [argument], {})
            if not (result.is_constant() and result.constant() is NotImplemented):
                return result
    if op in ("==", "!="):
        return Constant(tx.objects.same(left, right) == (op == "=="))
    raise tx.exceptions.new(
        TypeError,
        f"'{op}' not supported between instances of '{left.python_type().__name__}' and '{right.python_type().__name__}'",
    )


def is_objects_own(method: Value | None) -> bool:
    """Whether a bound method is one that object gives to all classes."""
    function = method.function if isinstance(method, MethodValue) else None
    return (
        isinstance(function, BuiltinValue)
        and getattr(function.real, "__objclass__", None) is object
    )


def compare_sequences(tx: TraceContext, op: str, left: Sequence, right: Sequence) -> Value:
    if type(left) is not type(right):
        if op in ("==", "!="):
            return Constant(op == "!=")
        raise tx.exceptions.new(
            TypeError,
            f"'{op}' not supported between instances of '{left.cls.__name__}' and '{right.cls.__name__}'",
        )
    if op in ("==", "!=") and len(left.items) != len(right.items):
        return Constant(op == "!=")
    for index, (a, b) in enumerate(
        zip(left.iterate_live(tx), right.iterate_live(tx), strict=False)
    ):
        if not equal(tx, a, b):
            if index >= min(len(left.items), len(right.items)):  # comparing them emptied a list
                break
            return Constant(op == "!=") if op in ("==", "!=") else compare(tx, op, a, b)
    return Constant(COMPARE[op][0](len(left.items), len(right.items)))


def equal_dictionaries(tx: TraceContext, left: DictValue, right: DictValue) -> bool:
    if set(left.whole(tx)) != set(right.whole(tx)):
        return False
    others = ((value, right.get(tx, key)) for key, value in left.pairs(tx))
    return all(other is not None and equal(tx, value, other) for value, other in others)


def equal(tx: TraceContext, left: Value, right: Value) -> bool:
    """`left is right or left == right`, as containers compare their items."""
    return tx.objects.same(left, right) or compare(tx, "==", left, right).truth(tx)


def contains(tx: TraceContext, item: Value, container: Value) -> bool:
    """item in container."""
    return container.contains(tx, item).truth(tx)
