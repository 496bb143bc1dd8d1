"""The memory of a NumPy result: an operation of the graph gives the values, and copies bring them
into the layout that NumPy's result has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ....backends.graph.memory import share_memory
from ....errors import GraphBreak
from ..constant import Constant
from ..context import TraceContext
from ..tensor.tensor import TensorValue
from .expected_result import ResultLayout, StandIns, shares_memory


def has_unknown_sizes(tx: TraceContext, fake: torch.Tensor) -> bool:
    """Whether the sizes of a tensor depend on values."""
    return tx.symbols.exist and tx.symbols.shapes.depends_on_values(fake)


def lay_out_result(
    tx: TraceContext,
    tensor: TensorValue,
    layout: ResultLayout,
    operands: Sequence[torch.Tensor],
    stand_ins: StandIns,
) -> TensorValue:
    """The tensor, in memory of its own or with other strides where NumPy's result is so."""
    call: Any = tx.graph.call  # its results are tensors
    fake = tensor.fake
    if any(isinstance(size, int) and not size for size in fake.shape):
        raise GraphBreak("unsupported-value", "an array without elements")
    if fake.is_conj() or fake.is_neg():
        tensor = call("call_method", "resolve_conj", [tensor], {})
        tensor = call("call_method", "resolve_neg", [tensor], {})
    # fakes of mixed layouts have other strides than tensors, and sizes may be unknown
    known = not any(has_unknown_sizes(tx, one) for one in (fake, *operands)) and all(
        one.is_contiguous() for one in operands
    )
    contiguous = {"memory_format": Constant(torch.contiguous_format)}
    if layout is ResultLayout.C and not (known and tensor.fake.is_contiguous()):
        return call("call_method", "clone", [tensor], contiguous)
    if layout is ResultLayout.FORTRAN:
        order = tuple(reversed(range(fake.dim())))
        if not (known and tensor.fake.permute(*order).is_contiguous()):
            dims = tx.make.tuple_of([Constant(dim) for dim in order])
            turned = call("call_method", "permute", [tensor, dims], {})
            turned = call("call_method", "clone", [turned], contiguous)
            return call("call_method", "permute", [turned, dims], {})
    if layout is not ResultLayout.VIEW and shares_memory(tensor.fake, stand_ins):
        tensor = call("call_method", "clone", [tensor], {})
    return tensor


def is_same_view(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two fakes are one part of one memory."""
    return share_memory(one, other) and one.shape == other.shape and one.stride() == other.stride()
