"""DTensor: a tensor that is distributed over the processes of a mesh, of which each holds a part.

It is a wrapper of this process's part. Operators on it run through its class's dispatcher, so their
collectives are in the graph of inner tensors (backends/autograd/inner_graphs.py). What makes it of
a tensor, and a tensor of it, are nodes of the captured graph. Meshes and placements are constants.
"""

from __future__ import annotations

from typing import Any

import torch

from ....backends.graph.distributed_call import DistributedCall
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


def convert(tx: TraceContext, method: str, tensor: Value, fixed: dict[str, Value]) -> Value:
    """Adds a node that calls a method of DTensor on a tensor. fixed: the other arguments, which are
    constants of the graph."""
    tensor = tx.look(tensor)
    if not isinstance(tensor, TensorValue):
        raise GraphBreak("unknown-call", f"DTensor.{method}() of {tensor.describe()}")
    known = {name: fixed_object(tx, item) for name, item in fixed.items()}
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


def add_model(method: str, by_position: tuple[str, ...]) -> None:
    """Registers the model of a method of DTensor. by_position: the names of those arguments after
    the tensor that may be given by position."""

    @models((API, f"DTensor.{method}"))
    def call(tx: TraceContext, tensor: Value, *args: Value, **kwargs: Value) -> Value:
        fixed = {**dict(zip(by_position, args, strict=False)), **kwargs}
        mesh = fixed.get("device_mesh")
        without_mesh = method == "from_local" and (mesh is None or mesh.is_none())
        if without_mesh or len(args) > len(by_position):
            raise GraphBreak("unknown-call", f"DTensor.{method}() with these arguments")
        fixed.pop("async_op", None)  # a backend decides when to wait
        return convert(tx, method, tensor, fixed)


for name, arguments in {
    "from_local": ("device_mesh", "placements"),
    "redistribute": ("device_mesh", "placements"),
    "to_local": (),
    "full_tensor": (),
}.items():
    add_model(name, arguments)
