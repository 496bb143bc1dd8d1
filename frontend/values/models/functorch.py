"""torch.func's vmap, grad and jvp. Their Python is inlined; entering and leaving a level, and
wrapping a tensor for it, are nodes of the graph."""

from __future__ import annotations

import torch
from torch._functorch import eager_transforms, predispatch
from torch.autograd import forward_ad
from torch.utils import _pytree

from ..base import Value
from ..constant import Constant
from ..context import TraceContext
from ..modes.forward_mode import ForwardMode
from ..registry import models
from ..tensor.tensor import TensorValue
from .torch_policy import allow


@models(predispatch.lazy_load_decompositions)
def lazy_load_decompositions(tx: TraceContext) -> Value:
    predispatch.lazy_load_decompositions()  # the fake run needs it now
    # and the graph in whatever process runs it
    tx.graph.raw_call(predispatch.lazy_load_decompositions, ())
    return Constant(None)


@models(predispatch._vmap_increment_nesting)
def vmap_increment_nesting(tx: TraceContext, batch_size: Value, randomness: Value) -> Value:
    return Constant(tx.modes.enter_level(tx, "vmap", batch_size, randomness))


@models(predispatch._vmap_decrement_nesting)
def vmap_decrement_nesting(tx: TraceContext) -> Value:
    tx.modes.leave_level(tx, "vmap")
    return Constant(None)


@models(predispatch._add_batch_dim)
def add_batch_dim(tx: TraceContext, tensor: Value, dim: Value, level: Value) -> Value:
    return tx.graph.call("call_function", predispatch._add_batch_dim, [tensor, dim, level], {})


@models(predispatch._remove_batch_dim)
def remove_batch_dim(
    tx: TraceContext, tensor: Value, level: Value, size: Value, out_dim: Value
) -> Value:
    return tx.graph.call(
        "call_function", predispatch._remove_batch_dim, [tensor, level, size, out_dim], {}
    )


@models(torch._C._functorch.is_batchedtensor)
def is_batchedtensor(tx: TraceContext, tensor: Value) -> Value:
    return Constant(
        isinstance(tensor, TensorValue) and torch._C._functorch.is_batchedtensor(tensor.fake)
    )


@models(torch._C._autograd._saved_tensors_hooks_get_disabled_error_message)
def hooks_disabled_message(tx: TraceContext) -> Value:
    return Constant(torch._C._autograd._saved_tensors_hooks_get_disabled_error_message())


@models(
    torch._C._autograd._saved_tensors_hooks_disable, torch._C._autograd._saved_tensors_hooks_enable
)
def hooks_switch(tx: TraceContext, *args: Value) -> Value:
    # says only that saving hooks cannot be set inside; nothing captured sets any
    return Constant(None)


@models(torch._C._functorch._grad_increment_nesting)
def grad_increment_nesting(tx: TraceContext) -> Value:
    return Constant(tx.modes.enter_level(tx, "grad"))


@models(torch._C._functorch._grad_decrement_nesting)
def grad_decrement_nesting(tx: TraceContext) -> Value:
    tx.modes.leave_level(tx, "grad")
    return Constant(None)


@models(torch._C._functorch._wrap_for_grad)
def wrap_for_grad(tx: TraceContext, tensor: Value, level: Value) -> Value:
    return tx.graph.call("call_function", torch._C._functorch._wrap_for_grad, [tensor, level], {})


@models(torch._C._functorch._unwrap_for_grad)
def unwrap_for_grad(tx: TraceContext, tensor: Value, level: Value) -> Value:
    return tx.graph.call("call_function", torch._C._functorch._unwrap_for_grad, [tensor, level], {})


@models(eager_transforms._create_differentiable)
def create_differentiable(tx: TraceContext, tensors: Value, level: Value | None = None) -> Value:
    return tx.wrap(_pytree.tree_map, None).call(tx, [tx.wrap(require_gradient, None), tensors], {})


@models(torch._C._functorch._jvp_increment_nesting)
def jvp_increment_nesting(tx: TraceContext) -> Value:
    return Constant(tx.modes.enter_level(tx, "jvp"))


@models(torch._C._functorch._jvp_decrement_nesting)
def jvp_decrement_nesting(tx: TraceContext) -> Value:
    tx.modes.leave_level(tx, "jvp")
    return Constant(None)


@models(torch._C._enter_dual_level)
def enter_dual_level(tx: TraceContext) -> Value:
    return Constant(tx.modes.enter_level(tx, "dual"))


@models(torch._C._exit_dual_level)
def exit_dual_level(tx: TraceContext, *, level: Value) -> Value:
    tx.modes.leave_level(tx, "dual")
    return Constant(None)


@models(forward_ad._set_fwd_grad_enabled)
def set_fwd_grad_enabled(tx: TraceContext, mode: Value) -> Value:
    tx.modes.enter_level(tx, "forward", Constant(mode.truth(tx)))
    return ForwardMode(tx.frames.break_position())


@models(forward_ad._maybe_load_decompositions)
def maybe_load_decompositions(tx: TraceContext) -> Value:
    forward_ad._maybe_load_decompositions()
    tx.graph.raw_call(forward_ad._maybe_load_decompositions, ())
    return Constant(None)


def require_gradient(tensor: torch.Tensor) -> torch.Tensor:
    """Makes a tensor of the innermost level a leaf that requires a gradient."""
    with eager_transforms.enable_inplace_requires_grad(True):
        return tensor.requires_grad_()


allow(require_gradient)
allow(eager_transforms._autograd_grad)
