"""New values of arrays: those of the program, those over tensors, and those of literals."""

from __future__ import annotations

from typing import Any

import torch

from ....errors import GraphBreak
from ....guards.guard import Kind
from ....guards.source import Source
from ....guards.source.tensors import ARRAY_DTYPES, ArrayTensor, tensor_of_array
from ..base import Value
from ..context import TraceContext
from ..tensor.tensor import TensorValue
from .array import ArrayValue
from .expected_result import numpy
from .literal_tensor import literal_tensor

TENSOR_DTYPES = frozenset(getattr(torch, name) for name in ARRAY_DTYPES)


def wrap_array(tx: TraceContext, obj: Any, source: Source | None) -> Value | None:
    """The value of an existing array; None for one that no graph takes."""
    if source is None:
        return None
    path = ArrayTensor(source)
    try:
        real = tensor_of_array(obj)
    except (TypeError, ValueError):
        tx.guards.add(source, Kind.TYPE, type(obj))
        tx.guards.add(source, Kind.PYTHON, ("no graph takes it", is_refused))
        return None
    tx.guards.add(source, Kind.TYPE, type(obj))
    return tx.objects.remember(obj, ArrayValue(tx.graph.input(tx, real, path), type(obj), source))


def is_refused(array: Any) -> bool:
    try:
        tensor_of_array(array)
    except (TypeError, ValueError):
        return True
    return False


def array_over(tx: TraceContext, tensor: TensorValue, what: str) -> ArrayValue:
    """A new array over the memory of a tensor, as `tensor.numpy()` gives it."""
    fake = tensor.fake
    if (
        type(tensor) is not TensorValue
        or fake.requires_grad
        or fake.device.type != "cpu"
        or fake.dtype not in TENSOR_DTYPES
        or fake.layout is not torch.strided
        or fake.is_conj()
        or fake.is_neg()
        or torch._C._functorch.maybe_current_level() is not None
    ):
        raise GraphBreak("data-dependent-value", f"`{what}` of {tensor.describe()}")
    return ArrayValue(alias(tx, tensor), numpy().ndarray)


def alias(tx: TraceContext, tensor: TensorValue) -> TensorValue:
    """Another tensor object over the same memory."""
    value = tx.graph.call("call_method", "detach", [tensor], {})
    assert isinstance(value, TensorValue)
    return value


def literal_array(tx: TraceContext, array: Any) -> ArrayValue:
    """A new array whose numbers the program has written down."""
    return ArrayValue(literal_tensor(tx, array), numpy().ndarray)
