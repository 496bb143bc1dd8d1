"""numpy's scalars, which are literals unless they vary between calls, and functions of literals,
which are folded. Arrays break."""

from __future__ import annotations

import functools
import sys
import warnings
from typing import Any

import torch

from ....errors import GraphBreak
from ....guards.guard import Kind
from ....guards.source import CalculatedNumber, Source
from ..base import ObservedException, Value
from ..constant import LITERAL_TYPES, Constant, fold
from ..context import TraceContext
from ..deferred_literal import is_dynamic
from ..functions.builtin_function import BuiltinValue

# Functions that do nothing but give a result; numpy.ufuncs are as harmless.
FUNCTIONS = """abs all amax amin any around ceil clip cumsum dot floor isclose isscalar max mean
    median min ndim prod round size sqrt std
    sum var""".split()
# What torch makes of the type of a number, not only of its value.
TYPED_BY_DATA = frozenset({
    torch.tensor, torch.as_tensor, torch.asarray, torch.scalar_tensor, torch.full, torch.full_like,
    torch.result_type,
})  # fmt: skip


def is_numpys(obj: Any) -> bool:
    """Whether an object is a numpy scalar, or a function that is folded on literals."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and (isinstance(obj, numpy.number | numpy.bool_) or is_function(obj))


@functools.cache
def functions() -> frozenset[int]:
    numpy = sys.modules["numpy"]
    return frozenset(id(getattr(numpy, name)) for name in FUNCTIONS if hasattr(numpy, name))


def is_function(obj: Any) -> bool:
    return type(obj).__module__ == "numpy" and (
        type(obj).__name__ == "ufunc" or id(obj) in functions()
    )


def operand(number: Any) -> Any:
    """The Python number for which torch takes a numpy scalar."""
    if type(number).__name__ in ("bool", "bool_"):
        # a number to some, a truth value to others
        raise GraphBreak("unsupported-value", "a numpy.bool as an operand of a tensor")
    return number.item()


def python_number(scalar: Any) -> Any:
    """The int or float that equals a numpy scalar."""
    return scalar.item()


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


class NumpyFunction(BuiltinValue):
    """A function of numpy's."""

    __slots__ = ()

    def call(self, tx: TraceContext, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if not tx.options.fullgraph and any(map(is_dynamic, args)):
            # its result would be a numpy number that varies, which no symbol stands for
            raise GraphBreak(
                "unknown-call", f"numpy.{self.real.__name__} with a number that varies"
            )

        def quietly(*args: Any, **kwargs: Any) -> Any:
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                result = self.real(*args, **kwargs)
            if warned or not (
                type(result) in LITERAL_TYPES
                or (type(result).__module__ == "numpy" and is_numpys(result))
            ):
                raise NotFolded
            return result

        try:
            return fold(tx, quietly, args, kwargs)
        except ObservedException as error:
            if error.cls is not NotFolded:
                raise
            raise GraphBreak("unknown-call", f"numpy.{self.real.__name__}") from None


class NotFolded(Exception):  # noqa: N818 - it steers
    """Raised for a result that is no number, or a call that warned."""


def wrap_numpys(tx: TraceContext, obj: Any, source: Source | None) -> Value:
    if is_function(obj):
        tx.guards.add(source, Kind.IS, obj)
        return NumpyFunction(obj, source)
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
