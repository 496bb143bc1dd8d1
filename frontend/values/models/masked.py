"""torch.masked: reductions of plain tensors. For a MaskedTensor they break."""

from __future__ import annotations

from torch.masked import _ops

from ..base import Value
from ..context import TraceContext
from ..registry import models
from ..tensor.tensor import TensorValue


@models(_ops._combine_input_and_mask)
def combine_input_and_mask(
    tx: TraceContext, op: Value, tensor: Value, mask: Value, *args: Value
) -> Value:
    """Returns the tensor with masked elements replaced by the reduction's identity."""
    if not isinstance(tensor, TensorValue):
        raise tensor.unsupported_use("a masked reduction of it")
    if mask.is_none():
        return tensor
    input_mask = tx.wrap(_ops._input_mask, None).call(tx, [tensor], {"mask": mask})
    name = op.attribute(tx, "__name__")
    identity = tx.wrap(_ops._reduction_identity, None).call(tx, [name, tensor, *args], {})
    return tx.wrap(_ops._where, None).call(tx, [input_mask, tensor, identity], {})
