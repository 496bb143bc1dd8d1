"""torch.take_along_dim() of tensors whose sizes vary, as expand() and gather(): its implementation
in C++ reads sizes as numbers, which would fix them."""

from __future__ import annotations

import torch

from ..base import Value
from ..constant import Constant
from ..context import TraceContext
from ..registry import method, models
from ..tensor.tensor import TensorValue


@models(torch.take_along_dim)
@method(torch.Tensor, "take_along_dim")
def take_along_dim(
    tx: TraceContext, input: Value, indices: Value, dim: Value | None = None, **how: Value
) -> Value:
    input, indices = tx.look(input), tx.look(indices)
    along = wrapped_dim(input, indices, dim)
    if along is None or how:
        given = {} if dim is None else {"dim": dim}
        return tx.graph.function(torch.take_along_dim, input, indices, **given, **how)
    expanded = [
        tx.graph.call("call_method", "expand", [one, *sizes_to_meet(tx, one, other, along)], {})
        for one, other in ((input, indices), (indices, input))
    ]
    return tx.graph.call("call_method", "gather", [expanded[0], Constant(along), expanded[1]], {})


def wrapped_dim(input: Value, indices: Value, dim: Value | None) -> int | None:
    """The dimension, counted from the first one; None where torch has to see the call itself: no
    size varies, or it may refuse it."""
    if not (isinstance(input, TensorValue) and isinstance(indices, TensorValue)):
        return None
    rank = input.fake.dim()
    if (
        not isinstance(dim, Constant)
        or type(dim.object) is not int
        or not -rank <= dim.object < rank
        or indices.fake.dim() != rank
        or indices.fake.dtype is not torch.int64
        or not any(
            isinstance(size, torch.SymInt) for size in (*input.fake.shape, *indices.fake.shape)
        )
    ):
        return None
    return dim.object % rank


def sizes_to_meet(tx: TraceContext, one: Value, other: Value, along: int) -> list[Value]:
    """The sizes that two tensors have together, but along one dimension: -1 keeps that of `one`.
    expand() to the other's size refuses what does not fit, as gather() would not."""
    assert isinstance(one, TensorValue) and isinstance(other, TensorValue)
    return [
        Constant(-1)
        if at == along or (type(size) is int and size == 1)
        else other.method(tx, "size", [Constant(at)], {})
        for at, size in enumerate(other.fake.shape)
    ]
