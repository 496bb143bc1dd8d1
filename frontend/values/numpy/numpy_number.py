"""numpy's scalars, which are literals unless they vary between calls."""

from __future__ import annotations

import sys
from typing import Any

import torch

from ....guards.guard import Kind
from ....guards.source import CalculatedNumber, Source
from ..base import Value
from ..constant import Constant
from ..context import TraceContext

# What torch makes of the type of a number, not only of its value.
TYPED_BY_DATA = frozenset({
    torch.tensor, torch.as_tensor, torch.asarray, torch.scalar_tensor, torch.full, torch.full_like,
    torch.result_type,
})  # fmt: skip


def is_number(obj: Any) -> bool:
    """Whether an object is a numpy scalar of numbers."""
    numpy = sys.modules["numpy"]
    return isinstance(obj, numpy.number | numpy.bool_)


def python_number(scalar: Any) -> Any:
    """The int or float that equals a numpy scalar."""
    return scalar.item()


def written_number(value: Value) -> Value:
    """What torch stores for a number that is assigned to elements of a tensor, whose dtype it
    takes: for a numpy scalar that torch takes for an int or a float, the Python number that equals
    it."""
    cls = value.python_type()
    if cls.__module__ != "numpy" or not issubclass(cls, float | sys.modules["numpy"].integer):
        return value
    if type(value) is VaryingScalar:
        return value.number
    return Constant(python_number(value.object)) if type(value) is Constant else value


class VaryingScalar(Value):
    """A numpy scalar that varies between calls. Tensor operations take the Python number that it
    equals, which is a symbol; what makes another numpy scalar of it breaks."""

    __slots__ = ("cls", "number")

    def __init__(self, cls: type, number: Value, source: Source) -> None:
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

    def method(
        self, tx: TraceContext, name: str, args: list[Value], kwargs: dict[str, Value]
    ) -> Value:
        if name == "item" and not args and not kwargs:
            return self.number
        raise self.unsupported_use(f"method {name}")


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
