"""NumPy's scalars, which are literals unless they vary between calls, and NumPy's functions of a
number that varies: each call calculates them, and the results are numbers that vary, too."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from typing import Any

import torch

from ....errors import GraphBreak
from ....guards.guard import Kind
from ....guards.source import CalculatedNumber, Source
from ....records import record
from ..base import Args, Kwargs, Value
from ..constant import Constant
from ..containers.sequence import Sequence
from ..context import TraceContext
from ..emitter import Emitter
from ..operation import Operation, UnaryOperation
from ..tensor.number_arithmetic import calculate
from ..tensor.number_functions import AS_INT
from ..tensor.symbolic_number import (
    SymbolicNumber,
    can_be_symbol,
    number_now,
    path_of,
    path_of_call,
)

# What torch makes of the type of a number, not only of its value.
TYPED_BY_DATA = frozenset({torch.tensor, torch.as_tensor, torch.asarray})


def is_numpy_number(obj: Any) -> bool:
    """Whether an object is a numpy scalar of numbers."""
    numpy = sys.modules["numpy"]
    return isinstance(obj, numpy.number | numpy.bool_)


def python_number(scalar: Any) -> Any:
    """The int or float that equals a numpy scalar."""
    return scalar.item()


def written_number(tx: TraceContext, value: Value) -> Value:
    """What torch stores for a number that is assigned to elements of a tensor, whose dtype it
    takes: for a numpy scalar that torch takes for an int or a float, the Python number that equals
    it."""
    cls = value.python_type()
    if cls.__module__ != "numpy" or not issubclass(cls, float | sys.modules["numpy"].integer):
        return value
    if type(value) is VaryingScalar:
        return value.number
    if getattr(value, "is_scalar", False):  # an element of an array
        tensor: Value = value.tensor  # type: ignore[attr-defined]
        return tx.graph.call("call_method", "item", [tensor], {})
    return Constant(python_number(value.object)) if type(value) is Constant else value


class VaryingScalar(Value):
    """A numpy scalar that varies between calls. Tensor operations take the Python number that it
    equals, which is a symbol. NumPy calculates other scalars of it in each call."""

    __slots__ = ("cls", "number")

    def __init__(self, cls: type, number: Value, source: Source | None) -> None:
        super().__init__(source)
        self.cls, self.number = cls, number

    def python_type(self) -> type:
        return self.cls

    def describe(self) -> str:
        name = self.source.name if self.source is not None else "a number"
        return f"'{name}', a {self.cls.__name__} that varies,"

    def graph_argument(self, tx: TraceContext) -> tuple[Any, Any]:
        return tx.graph.argument(self.number)

    def truth(self, tx: TraceContext) -> bool:
        return self.number.truth(tx)

    def attribute(self, tx: TraceContext, name: str) -> Value:
        if name == "item":
            return tx.make.bound_method(self, name)
        return super().attribute(tx, name)

    def method(self, tx: TraceContext, name: str, args: Args, kwargs: Kwargs) -> Value:
        if name == "item" and not args and not kwargs:
            return self.number
        raise self.unsupported_use(f"method {name}")

    def apply_unary(self, tx: TraceContext, op: UnaryOperation) -> Value:
        found = calculate_scalar(tx, op.function, self)
        if found is None:
            raise self.unsupported_use(op.name)
        return found

    def reconstruct(self, emit: Emitter) -> None:
        emit.call(self.cls, [self.number])


def wrap_number(tx: TraceContext, obj: Any, source: Source | None) -> Value:
    number = obj.item()
    if (
        source is not None
        and type(number) in (int, float)
        and tx.symbols.is_symbolic(source, number)
    ):
        tx.guards.add(source, Kind.TYPE, type(obj))
        path = CalculatedNumber(source, python_number)
        return VaryingScalar(type(obj), tx.symbols.input(number, path), source)
    tx.guards.add(source, Kind.EQUALS, obj)
    return Constant(obj, source)


@record
class CallWithoutWarning:
    """A pure function of NumPy's. A call that would warn raises FloatingPointError: as a guard it
    does not hold, and the warning is given by eager."""

    function: Callable[..., Any]

    @property
    def __name__(self) -> str:
        return getattr(self.function, "__name__", "function")

    def __call__(self, *args: Any) -> Any:
        with sys.modules["numpy"].errstate(all="raise"):
            return self.function(*args)


def calculate_scalar(
    tx: TraceContext, function: Callable[..., Any], *operands: Value
) -> Value | None:
    """function(*operands) of literals and one number that the program was given, or that follows
    from such a number; None for other operands and results."""
    if not any(isinstance(one, VaryingScalar | SymbolicNumber) for one in operands):
        return None
    if not all(isinstance(one, VaryingScalar | SymbolicNumber | Constant) for one in operands):
        return None
    call = CallWithoutWarning(function)
    path = path_of_call(call, operands)
    if path is None:
        return None
    try:
        now = call(*map(value_now, operands))
    except (ArithmeticError, TypeError, ValueError):
        return None
    return scalar_at(tx, now, path)


def value_now(value: Value) -> Any:
    """The number in this call, which is not relied on."""
    if isinstance(value, VaryingScalar):
        return value.cls(number_now(value.number))
    return number_now(value)


def scalar_at(tx: TraceContext, scalar: Any, path: Source) -> Value | None:
    """The value of a scalar that each call calculates; a bool is guarded. None for scalars that no
    symbol stands for."""
    numpy = sys.modules["numpy"]
    if isinstance(scalar, numpy.bool_):
        tx.guards.add(path, Kind.EQUALS, scalar)
        return Constant(scalar)
    is_real = isinstance(scalar, numpy.floating | numpy.integer)
    number: Any = scalar.item() if is_real else None
    if type(number) not in (int, float) or not can_be_symbol(number):
        return None
    tx.guards.add(path, Kind.TYPE, type(scalar))
    symbol = tx.symbols.input(number, CalculatedNumber(path, python_number))
    return VaryingScalar(type(scalar), symbol, path)


def operate_on_scalar(tx: TraceContext, op: Operation, left: Value, right: Value) -> Value | None:
    """An operator of a NumPy scalar that varies, and a literal; None for others. Breaks where NumPy
    warns of the result of literals, which would be computed now."""
    if isinstance(left, VaryingScalar) or isinstance(right, VaryingScalar):
        return calculate_scalar(tx, op.function, left, right)
    if holds_scalar(left) and right.is_constant() or holds_scalar(right) and left.is_constant():
        try:
            CallWithoutWarning(op.function)(left.constant(), right.constant())
        except FloatingPointError as error:
            message = f"`{op.sign}` of NumPy's scalars, which warns ({error}),"
            raise GraphBreak("unknown-call", message) from None
        except (ArithmeticError, TypeError, ValueError):
            return None  # Python raises it again
    return None


def holds_scalar(value: Value) -> bool:
    """Whether it is a scalar of NumPy's that is a literal."""
    return type(value) is Constant and is_numpy_number(value.object)


def product_of(tx: TraceContext, sizes: Sequence) -> Value | None:
    """numpy.prod() of ints of which some vary; None for others."""
    items = list(map(tx.look, sizes.items))
    varying = [item for item in items if isinstance(item, SymbolicNumber)]
    if not varying or any(item.python_type() is not int for item in items):
        return None
    product, *others = items
    for item in others:
        product = calculate(tx, operator.mul, product, item) or item
    if not isinstance(product, SymbolicNumber) or not AS_INT(tx, product):
        return None
    path = path_of(product)
    cls = sys.modules["numpy"].int64
    return VaryingScalar(cls, product, path and CalculatedNumber(path, cls))
