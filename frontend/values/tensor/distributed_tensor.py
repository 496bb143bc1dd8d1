"""DTensor: a tensor that is distributed over the processes of a mesh, of which each holds a part.

It is a wrapper of this process's part. Operators on it run through its class's dispatcher, so their
collectives are in the graph of inner tensors (backends/autograd/inner_graphs.py). What makes it of
a tensor, and a tensor of it, are nodes of the captured graph. Meshes and placements are constants.
"""

from __future__ import annotations

from typing import Any

import torch

from ....backends.graph.distributed_call import DistributedCall
from ....backends.graph.wrappers import is_distributed
from ....errors import GraphBreak
from ....guards.guard import Kind
from ..base import Value
from ..constant import Constant
from ..context import TraceContext
from ..objects.frozen_object import FrozenObject
from ..registry import models
from .tensor import TensorValue
from .wrapper_subclass import WrapperTensor

API = "torch.distributed.tensor._api"


class DistributedTensor(WrapperTensor):
    """A DTensor."""

    __slots__ = ()

    def attribute(self, tx: TraceContext, name: str) -> Value:
        fake: Any = self.fake
        if name == "device_mesh":
            return FrozenObject(fake.device_mesh)
        if name == "placements":
            return tx.wrap(fake.placements, None)
        if name == "_local_tensor":
            return tx.graph.function(getattr, self, Constant(name))
        return super().attribute(tx, name)


def family_of(cls: type) -> type[WrapperTensor]:
    """The family of values for instances of a wrapper class."""
    return DistributedTensor if is_distributed(cls) else WrapperTensor


def convert(tx: TraceContext, method: str, tensor: Value, fixed: dict[str, Value | None]) -> Value:
    """A node that calls a method of DTensor on a tensor. fixed: arguments that have to be known."""
    tensor = tx.look(tensor)
    if not isinstance(tensor, TensorValue):
        raise GraphBreak("unknown-call", f"DTensor.{method}() of {tensor.describe()}")
    known = {name: fixed_object(tx, item) for name, item in fixed.items() if item is not None}
    call = DistributedCall(getattr(torch.distributed.tensor.DTensor, method), known)
    return tx.graph.function(call, tensor)


def fixed_object(tx: TraceContext, value: Value) -> Any:
    """A literal, a placement, a mesh, or a list of such."""
    value = tx.look(value)
    real = None if value.is_constant() else tx.objects.real_object(value)
    if isinstance(real, torch.distributed.DeviceMesh) and value.source is not None:
        tx.guards.add(value.source, Kind.IS, real)
        return real
    return value.literal(tx)


@models((API, "DTensor.from_local"))
def from_local(
    tx: TraceContext,
    local_tensor: Value,
    device_mesh: Value | None = None,
    placements: Value | None = None,
    *,
    run_check: Value | None = None,
    shape: Value | None = None,
    stride: Value | None = None,
    grad_placements: Value | None = None,
) -> Value:
    if device_mesh is None or device_mesh.is_none():
        raise GraphBreak("unknown-call", "DTensor.from_local() without a mesh")
    fixed = {
        "device_mesh": device_mesh,
        "placements": placements,
        "run_check": run_check,
        "shape": shape,
        "stride": stride,
        "grad_placements": grad_placements,
    }
    return convert(tx, "from_local", local_tensor, fixed)


@models((API, "DTensor.to_local"))
def to_local(tx: TraceContext, self: Value, *, grad_placements: Value | None = None) -> Value:
    return convert(tx, "to_local", self, {"grad_placements": grad_placements})


@models((API, "DTensor.full_tensor"))
def full_tensor(tx: TraceContext, self: Value, *, grad_placements: Value | None = None) -> Value:
    return convert(tx, "full_tensor", self, {"grad_placements": grad_placements})


@models((API, "DTensor.redistribute"))
def redistribute(
    tx: TraceContext,
    self: Value,
    device_mesh: Value | None = None,
    placements: Value | None = None,
    *,
    async_op: Value | None = None,
    forward_dtype: Value | None = None,
    backward_dtype: Value | None = None,
) -> Value:
    """async_op: a backend decides when to wait."""
    fixed = {
        "device_mesh": device_mesh,
        "placements": placements,
        "forward_dtype": forward_dtype,
        "backward_dtype": backward_dtype,
    }
    return convert(tx, "redistribute", self, fixed)
