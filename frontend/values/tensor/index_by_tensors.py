"""Indexing in torch's mode for score_mod and mask_mod (models/indexing_mode.py): all indices are
tensors, and numbers become such."""

from __future__ import annotations

import torch

from ..base import Value
from ..constant import Constant
from ..containers.sequence import nested_items
from ..context import TraceContext
from .symbolic_number import SymbolicNumber


def index_by_tensors(tx: TraceContext, tensor: Value, key: Value) -> Value | None:
    """tensor[key] in the mode; None for an index that the mode leaves to torch, which has slices,
    None or Ellipsis."""
    fake: torch.Tensor = tensor.fake  # type: ignore[attr-defined]
    indices = list(nested_items(tx, key))
    if not all(map(is_index, indices)):
        return None
    if not indices or (torch.is_grad_enabled() and fake.requires_grad):
        # its gradient is that of an autograd.Function
        raise tensor.unsupported_use("indexed by numbers in TransformGetItemToIndex")
    device = Constant(fake.device)
    made = [as_tensor(tx, index, device) for index in indices]
    return tx.graph.function(torch.ops.aten.index.Tensor, tensor, tx.make.list_of(made))


def is_index(value: Value) -> bool:
    """Whether the mode takes it for an index: a tensor or an int."""
    return issubclass(value.python_type(), torch.Tensor | int)


def as_tensor(tx: TraceContext, index: Value, device: Value) -> Value:
    how: dict[str, Value] = {"dtype": Constant(torch.int64), "device": device}
    if isinstance(index, SymbolicNumber):
        return tx.graph.function(torch.scalar_tensor, index, **how)
    if isinstance(index, Constant):
        return tx.graph.function(torch.tensor, Constant(int(index.object)), **how)
    return index
