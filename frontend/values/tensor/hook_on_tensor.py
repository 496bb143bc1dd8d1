"""tensor.register_hook and tensor.retain_grad: a node between compiled subgraphs."""

from __future__ import annotations

import functools
import types
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from ....backends.graph.tensor_hooks import RegisterHook, RegisterLaterHook, RetainGrad
from ....errors import GraphBreak
from ....guards.guard import Kind
from ..base import Args, Kwargs, Value
from ..context import TraceContext
from ..emitter import Emitter
from ..functions.function import FunctionValue
from ..registry import method, models
from .tensor import TensorValue
from .traced_call import NoEffects

HOOKS = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, functools.partial)
REMOVAL = "the removal of a hook"


class HookHandle(Value):
    """What register_hook returned. A use of it breaks the graph."""

    __slots__ = ("registered",)
    cls = RemovableHandle
    break_reason = "unsupported-value"

    def __init__(self, registered: RegisterHook) -> None:
        super().__init__()
        self.registered = registered

    def attribute(self, tx: TraceContext, name: str) -> Value:
        if name == "remove":
            return tx.make.bound_method(self, name)
        return super().attribute(tx, name)

    def method(self, tx: TraceContext, name: str, args: Args, kwargs: Kwargs) -> Value:
        raise GraphBreak("unknown-call", REMOVAL)

    def reconstruct(self, emit: Emitter) -> None:
        emit.call(self.registered.handle, [])


@models(RemovableHandle.remove)
def remove(tx: TraceContext, self: Value) -> Value:
    """The number of a handle from before the frame may be another one in each call."""
    if self.source is not None:
        raise GraphBreak("unknown-call", REMOVAL)
    return tx.calls.inline(tx.wrap(RemovableHandle.remove, None), [self], {})


@method(torch.Tensor, "register_hook")
def register_hook(tx: TraceContext, self: TensorValue, hook: Value) -> Value:
    check_may_have_hooks(tx, self)
    hook = tx.look(hook)
    function = None if self.source is not None else real_function(tx, hook)
    if function is not None:
        registered = RegisterHook(function)
        tx.graph.function(registered, self)
        return HookHandle(registered)
    if hook.python_type() not in HOOKS:
        raise self.unsupported_use("a hook that is no function")
    later = RegisterLaterHook()
    tx.graph.function(later, self)
    tx.effects.output(later.bind, (hook,), tx.frames.break_position())
    return HookHandle(later)


@method(torch.Tensor, "retain_grad")
def retain_grad(tx: TraceContext, self: TensorValue) -> Value:
    check_may_have_hooks(tx, self)
    if self.source is not None or self.fake.is_leaf:
        raise self.unsupported_use("memory or hooks")
    return tx.graph.function(RetainGrad(), self)


def check_may_have_hooks(tx: TraceContext, tensor: TensorValue) -> None:
    """Raises GraphBreak unless a graph may register a hook on a tensor: one whose gradient passes
    through it, and that is an input or is calculated by the graph."""
    fake = tensor.fake
    if (
        not fake.requires_grad
        or (fake.is_leaf and tensor.source is None)
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
