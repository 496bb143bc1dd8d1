"""torch.autograd."""

from __future__ import annotations

import torch
from torch.nn.modules._functions import BackwardHookFunction
from torch.utils.hooks import BackwardHook

from ....backends.graph.backward_hooks import is_set_up
from ....backends.graph.tensor_hooks import RegisterHook
from ....errors import GraphBreak
from ....torch_compat import AUTOGRAD_FUNCTION, FUNCTION_APPLY, SWITCHED_OFF
from ..base import Value
from ..context import TraceContext
from ..objects.class_value import ClassValue
from ..registry import models
from ..tensor import autograd_function, backward_hook


@models(FUNCTION_APPLY)
def apply(tx: TraceContext, cls: Value, *args: Value, **kwargs: Value) -> Value:
    if kwargs or not isinstance(cls, ClassValue):
        raise GraphBreak("unknown-call", "torch.autograd.Function.apply() with keyword arguments")
    if AUTOGRAD_FUNCTION in SWITCHED_OFF:
        raise GraphBreak(
            "unknown-call", f"torch.autograd.Function.apply(): {SWITCHED_OFF[AUTOGRAD_FUNCTION]}"
        )
    if cls.cls is BackwardHookFunction:  # torch.utils.hooks looks for its node by name
        raise backward_hook.break_here()
    return autograd_function.apply(tx, cls, list(args))


@models(BackwardHook.setup_input_hook)
def setup_input_hook(tx: TraceContext, self: Value, args: Value) -> Value:
    return backward_hook.enter(tx, self, tx.look(args))


@models(BackwardHook.setup_output_hook)
def setup_output_hook(tx: TraceContext, self: Value, args: Value) -> Value:
    return backward_hook.leave(tx, self, tx.look(args))


@models(torch.autograd.grad)
def grad(tx: TraceContext, *args: Value, **kwargs: Value) -> Value:
    if any(is_set_up(node) or isinstance(node.target, RegisterHook) for node in tx.graph.nodes):
        raise GraphBreak("unknown-call", "torch.autograd.grad() after a hook")
    return tx.graph.function(torch.autograd.grad, *args, **kwargs)
