"""NumPy's functions: of arrays they go into the graph, of literals they are folded."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import torch

from ....errors import GraphBreak
from ..base import Args, Kwargs, ObservedException, Value
from ..constant import LITERAL_TYPES, Constant, fold
from ..containers.sequence import Sequence
from ..context import TraceContext
from ..deferred_literal import is_dynamic
from ..functions.builtin_function import BuiltinValue
from ..models.torch_policy import refuse_disallowed
from ..tensor.read_number import whether_all
from .array import ARRAYS, ArrayValue, arrays_in, call_numpy
from .expected_result import is_scalar, numpy
from .numpy_number import calculate_scalar, product_of
from .replacements import REPLACEMENTS
from .reversed_array import flip_key, value_of
from .torch_numpy import implementations

# Functions that do nothing but give a result; numpy.ufuncs are as harmless.
FUNCTIONS = """abs all amax amin any around ceil clip cumsum dot floor isclose isscalar max mean
    median min ndim prod round size sqrt std
    sum var""".split()
FLIPS = frozenset({"flip", "fliplr", "flipud"})
ANSWERS = {"allclose": "isclose", "array_equal": "equal"}
NEW_ARRAYS = frozenset({"linspace"})  # that go into the graph without an array, too


@functools.cache
def functions() -> frozenset[int]:
    return frozenset(id(getattr(numpy(), name)) for name in FUNCTIONS if hasattr(numpy(), name))


def is_function(obj: Any) -> bool:
    return type(obj).__name__ in ("ufunc", "_ArrayFunctionDispatcher") or id(obj) in functions()


def is_folded(obj: Any) -> bool:
    """Whether a function is computed now where its arguments are literals."""
    return type(obj).__name__ == "ufunc" or id(obj) in functions()


class NumpyFunction(BuiltinValue):
    """A function of numpy's."""

    __slots__ = ()

    def call(self, tx: TraceContext, args: Args, kwargs: Kwargs) -> Value:
        """Calls the function on arrays as torch's operators would, on literals now. Breaks for
        results that are no literals, and calls that warn."""
        refuse_disallowed(self.real)
        given = [tx.look(arg) for arg in args]
        named = {name: tx.look(arg) for name, arg in kwargs.items()}
        if self.real.__name__ in NEW_ARRAYS or arrays_in([*given, *named.values()]):
            return call_function(tx, self.real, given, named)
        if not is_folded(self.real):
            raise GraphBreak("unknown-call", f"numpy.{self.real.__name__}")
        found = None if named else self.call_on_numbers(tx, given)
        if found is not None:
            return found
        if not tx.options.fullgraph and any(
            is_dynamic(arg) and arg.python_type() is not str for arg in args
        ):
            # its result would be a NumPy number that varies, which no symbol stands for
            raise GraphBreak(
                "unknown-call", f"numpy.{self.real.__name__} with a number that varies"
            )

        def quietly(*args: Any, **kwargs: Any) -> Any:
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                result = self.real(*args, **kwargs)
            if warned or not (type(result) in LITERAL_TYPES or is_scalar(result)):
                raise NotFolded
            return result

        try:
            return fold(tx, quietly, args, kwargs)
        except ObservedException as error:
            if error.cls is not NotFolded:
                raise
            raise GraphBreak("unknown-call", f"numpy.{self.real.__name__}") from None

    def call_on_numbers(self, tx: TraceContext, args: list[Value]) -> Value | None:
        """The result of a call with numbers that vary; None where it is to be computed now."""
        if self.real.__name__ == "prod" and len(args) == 1 and isinstance(args[0], Sequence):
            return product_of(tx, args[0])
        return calculate_scalar(tx, self.real, *args)


class NotFolded(Exception):  # noqa: N818 - it steers
    """Raised for a result that is no number, or a call that warned."""


def flip(tx: TraceContext, name: str, m: Value, axis: Value | None = None) -> Value:
    """numpy.flip and the like: an index with slices that run backwards."""
    fake: torch.Tensor = m.fake  # type: ignore[attr-defined]
    key = flip_key(name, fake.dim(), None if axis is None else axis.literal(tx))
    if key is None:
        raise GraphBreak("exception-leaves", f"an error of numpy.{name}")
    return m.item(tx, tx.make.tuple_of([value_of(part) for part in key]))


def answer(tx: TraceContext, name: str, args: Args, kwargs: Kwargs) -> Value:
    """numpy.allclose and array_equal: a comparison of elements, and one bool that is read."""
    if name == "array_equal":
        shapes = [array.fake.shape for array in args if isinstance(array, ARRAYS)]
        if len(args) > 2 or kwargs or len(shapes) != 2:
            raise GraphBreak("unknown-call", "numpy.array_equal of these arguments")
        if shapes[0] != shapes[1]:
            return Constant(False)
    compared = call_function(tx, getattr(numpy(), ANSWERS[name]), args, kwargs)
    if not isinstance(compared, ArrayValue):
        raise GraphBreak("unknown-call", f"numpy.{name}")
    return whether_all(tx, f"`numpy.{name}()`", compared.tensor)


def call_function(tx: TraceContext, function: Any, args: Args, kwargs: Kwargs) -> Value:
    """A call of a function of NumPy's for which torch._numpy has another."""
    implementation = implementations().get(id(function))
    name = function.__name__
    named = getattr(numpy(), name, None) is function
    if named and name in FLIPS and args and isinstance(args[0], ARRAYS):
        return flip(tx, name, *args, **kwargs)
    if named and name in ANSWERS and len(args) >= 2:
        return answer(tx, name, args, kwargs)
    replacement = REPLACEMENTS.get(name) if named else None
    if implementation is None and replacement is None:
        raise GraphBreak("unknown-call", f"numpy.{name}")
    return call_numpy(tx, name, function, args, kwargs, implementation, replacement)
