"""NumPy's functions that make arrays, and what turns arrays into tensors and back."""

from __future__ import annotations

import sys
from typing import Any

import torch

from ....errors import GraphBreak
from ..base import Value
from ..containers.sequence import Sequence
from ..context import TraceContext
from ..numpy.array import ArrayValue, alias, array_over, arrays_in, literal_array
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
    if not isinstance(array, ArrayValue) or array.is_scalar:
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
        elif not isinstance(data, ArrayValue):
            if isinstance(data, Sequence) and arrays_in([data]):
                raise GraphBreak("unknown-call", f"numpy.{name} of a list of arrays")
            data = literal_array(tx, NUMPY.array(data.literal(tx)))
        given = [tx.look(arg) for arg in args]
        return call_function(
            tx, function, [data, *given], {k: tx.look(v) for k, v in kwargs.items()}
        )


if NUMPY is not None:
    for _name in "zeros ones empty full eye identity arange".split():
        _array_function(_name)
    for _name in "array asarray ascontiguousarray".split():
        _array(_name)
