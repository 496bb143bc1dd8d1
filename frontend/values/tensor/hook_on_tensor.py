"""tensor.register_hook and tensor.retain_grad of a tensor that the frame has calculated: a node
between compiled subgraphs."""

from __future__ import annotations

import types
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from ....backends.graph.tensor_hooks import RegisterHook, RetainGrad
from ....guards.guard import Kind
from ..base import CannotReconstruct, Value
from ..context import TraceContext
from ..emitter import Emitter
from ..functions.function import FunctionValue
from ..registry import method
from .tensor import TensorValue
from .traced_call import NoEffects


class HookHandle(Value):
    """What register_hook returned. A use of it leaves the call to Python."""

    __slots__ = ("created_at",)
    cls = RemovableHandle
    break_reason = "unsupported-value"

    def __init__(self, created_at: int) -> None:
        super().__init__()
        self.created_at = created_at

    def attribute(self, tx: TraceContext, name: str) -> Value:
        stop = self.unsupported_use("of a hook in the frame that has registered it")
        stop.position = self.created_at
        raise stop

    def reconstruct(self, emit: Emitter) -> None:
        raise CannotReconstruct(self)


@method(torch.Tensor, "register_hook")
def register_hook(tx: TraceContext, self: TensorValue, hook: Value) -> Value:
    check_intermediate(tx, self)
    function = real_function(tx, tx.look(hook))
    if function is None:
        raise self.unsupported_use("a hook that is made in the frame and closes over values")
    tx.graph.function(RegisterHook(function), self)
    return HookHandle(tx.frames.break_position())


@method(torch.Tensor, "retain_grad")
def retain_grad(tx: TraceContext, self: TensorValue) -> Value:
    check_intermediate(tx, self)
    return tx.graph.function(RetainGrad(), self)


def check_intermediate(tx: TraceContext, tensor: TensorValue) -> None:
    """Raises GraphBreak unless a graph may register a hook on a tensor: one that the graph
    calculates, and whose gradient passes through it."""
    fake = tensor.fake
    if (
        tensor.source is not None
        or not fake.requires_grad
        or fake.is_leaf
        or isinstance(tx.effects, NoEffects)
        or torch._C._functorch.maybe_current_level() is not None
    ):
        raise tensor.unsupported_use("memory or hooks")


def real_function(tx: TraceContext, hook: Value) -> Any:
    """The function itself: one that existed before the frame, or one made in it that closes over
    nothing. None for others."""
    if not isinstance(hook, FunctionValue):
        return None
    if hook.real is not None:
        if hook.source is not None:
            tx.guards.add(hook.source, Kind.IS, hook.real)
        return hook.real
    if hook.closure or hook.defaults or hook.kwdefaults or hook.attributes:
        return None
    return types.FunctionType(hook.code, hook.globals, hook.code.co_name)
