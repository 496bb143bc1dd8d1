"""NumPy's functions that make arrays, and what turns arrays into tensors and back."""

from __future__ import annotations

import sys
from typing import Any

import torch

from ....errors import GraphBreak
from ..base import Value
from ..constant import Constant
from ..containers.sequence import Sequence
from ..context import TraceContext
from ..deferred_literal import is_dynamic
from ..numpy.array import ARRAYS, ArrayValue, arrays_in
from ..numpy.expected_result import is_array, run_on_stand_ins
from ..numpy.new_array import alias, array_over, literal_array
from ..numpy.numpy_function import call_function
from ..registry import method, models
from ..tensor.tensor import TensorValue

NUMPY: Any = sys.modules.get("numpy")  # which torch has loaded, if there is one


@method(torch.Tensor, "numpy", "__array__")
def tensor_numpy(tx: TraceContext, self: TensorValue) -> Value:
    return array_over(tx, self, ".numpy()")


@models(torch.from_numpy)
def from_numpy(tx: TraceContext, array: Value) -> Value:
    """A tensor over the memory of an array."""
    array = tx.look(array)
    if not isinstance(array, ArrayValue) or not array.is_writable:
        raise GraphBreak("unknown-call", f"torch.from_numpy() of {array.describe()}")
    return alias(tx, array.tensor)


def _array_function(name: str) -> None:
    function = getattr(NUMPY, name)

    @models(function)
    def make(tx: TraceContext, *args: Value, **kwargs: Value) -> Value:
        given = [tx.look(arg) for arg in args]
        return call_function(tx, function, given, {k: tx.look(v) for k, v in kwargs.items()})


def _array(name: str) -> None:
    function = getattr(NUMPY, name)

    @models(function)
    def make(tx: TraceContext, data: Value, *args: Value, **kwargs: Value) -> Value:
        data = tx.look(data)
        if isinstance(data, TensorValue):
            data = array_over(tx, data, f"numpy.{name}()")
        elif not isinstance(data, ARRAYS):
            if isinstance(data, Sequence) and arrays_in([data]):
                raise GraphBreak("unknown-call", f"numpy.{name} of a list of arrays")
            data = literal_array(tx, NUMPY.array(data.literal(tx)))
        given = [tx.look(arg) for arg in args]
        return call_function(
            tx, function, [data, *given], {k: tx.look(v) for k, v in kwargs.items()}
        )


def _function_of_literals(name: str) -> None:
    """NumPy makes the arrays while tracing."""
    function = getattr(NUMPY, name)

    @models(function)
    def make(tx: TraceContext, *args: Value, **kwargs: Value) -> Value:
        if not all(map(is_literal, (*args, *kwargs.values()))):
            raise GraphBreak("unknown-call", f"numpy.{name}")
        given = [arg.literal(tx) for arg in args]
        made = run_on_stand_ins(lambda: function(*given, **literals(tx, kwargs)))
        if type(made) is tuple and all(map(is_array, made)):
            return tx.make.tuple_of([literal_array(tx, array) for array in made])
        if not is_array(made):
            raise GraphBreak("unknown-call", f"numpy.{name}")
        return literal_array(tx, made)


def is_literal(value: Value) -> bool:
    """Whether a number, or a tuple of numbers, is written in the program, or guarded already."""
    if isinstance(value, Sequence):
        return all(map(is_literal, value.items))
    return isinstance(value, Constant) and not is_dynamic(value)


def literals(tx: TraceContext, values: dict[str, Value]) -> dict[str, Any]:
    return {name: value.literal(tx) for name, value in values.items()}


if NUMPY is not None:
    for _name in "zeros ones empty full eye identity arange".split():
        _array_function(_name)
    for _name in """
        bartlett blackman hamming hanning kaiser tri indices tril_indices triu_indices diag_indices
        geomspace logspace
    """.split():
        _function_of_literals(_name)
    for _name in "array asarray ascontiguousarray".split():
        _array(_name)
