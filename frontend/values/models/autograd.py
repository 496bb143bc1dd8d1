"""torch.autograd."""

from __future__ import annotations

import torch
import torch.fx
from torch.nn.modules._functions import BackwardHookFunction
from torch.utils.hooks import BackwardHook

from ....backends.graph.gradient_history import needs_gradient
from ....backends.graph.tensor_hooks import RegisterHook, RetainGrad
from ....errors import GraphBreak
from ....torch_compat import AUTOGRAD_FUNCTION, FUNCTION_APPLY, SWITCHED_OFF
from ..base import Value
from ..constant import Constant
from ..containers.sequence import Sequence
from ..context import TraceContext
from ..objects.class_value import ClassValue
from ..registry import models
from ..tensor import autograd_function
from ..tensor.tensor import TensorValue


@models(FUNCTION_APPLY)
def apply(tx: TraceContext, cls: Value, *args: Value, **kwargs: Value) -> Value:
    if kwargs or not isinstance(cls, ClassValue):
        raise GraphBreak("unknown-call", "torch.autograd.Function.apply() with keyword arguments")
    if AUTOGRAD_FUNCTION in SWITCHED_OFF:
        raise GraphBreak(
            "unknown-call", f"torch.autograd.Function.apply(): {SWITCHED_OFF[AUTOGRAD_FUNCTION]}"
        )
    if cls.cls is BackwardHookFunction:  # torch.utils.hooks looks for its node by name
        return set_up_hooks(tx)
    return autograd_function.call_apply(tx, cls, list(args))


@models(BackwardHook.setup_input_hook, BackwardHook.setup_output_hook)
def set_up_hooks(tx: TraceContext, *args: Value) -> Value:
    raise GraphBreak("unknown-call", "a backward hook being set up")


@models(torch.autograd.grad)
def grad(tx: TraceContext, *args: Value, **kwargs: Value) -> Value:
    if any(map(is_hook, tx.graph.nodes)):
        raise GraphBreak("unknown-call", "torch.autograd.grad() after a hook")
    asked = kwargs.get("inputs", args[1] if len(args) > 1 else Constant(None))
    if may_pass_through_the_past(tx, asked):
        raise GraphBreak(
            "unknown-call", "torch.autograd.grad() of tensors that were calculated before the graph"
        )
    return tx.graph.function(torch.autograd.grad, *args, **kwargs)


def is_hook(node: torch.fx.Node) -> bool:
    """Whether a node makes a backward pass do more than calculate gradients."""
    return isinstance(node.target, RegisterHook | RetainGrad)


def may_pass_through_the_past(tx: TraceContext, asked: Value) -> bool:
    """Whether derivatives with respect to inputs of the graph may reach these by way of operations
    before the graph, which it does not contain: another input is no leaf. Guarded."""
    asked = tx.look(asked)
    tensors = [tx.look(item) for item in (asked.items if isinstance(asked, Sequence) else [asked])]
    inputs = [
        item.value
        for item in tx.graph.inputs
        if isinstance(item.value, TensorValue) and needs_gradient(item.node)
    ]
    wanted = {id(value) for value in inputs if any(value is tensor for tensor in tensors)}
    calculated = {id(value) for value in inputs if wanted and comes_calculated(tx, value)}
    return bool(calculated) and (len(wanted) > 1 or not calculated <= wanted)


def comes_calculated(tx: TraceContext, value: TensorValue) -> bool:
    """Whether an input has a gradient history; guarded, but for parameters, which have none."""
    if not isinstance(value.real, torch.nn.Parameter):
        value.is_leaf(tx)
    return value.node.meta.get("grad_fn") is not None
