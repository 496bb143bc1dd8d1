"""torch.func's vmap, grad and jvp. Their Python is inlined; entering and leaving a level, and
wrapping a tensor for it, are nodes of the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._functorch import eager_transforms, predispatch
from torch.autograd import forward_ad
from torch.nn.utils import stateless
from torch.utils import _pytree

from ..base import Value
from ..constant import Constant
from ..context import TraceContext
from ..functions.function import FunctionValue
from ..modes.context_manager import OneFrameManager
from ..registry import models
from ..tensor.tensor import TensorValue
from .torch_policy import allow

FUNCTORCH: Any = torch._C._functorch


def _loads_decompositions(function: Callable[[], None]) -> None:
    @models(function)
    def load(tx: TraceContext) -> Value:
        function()  # the fake run needs them now
        tx.graph.raw_call(function, ())  # and the graph in whatever process runs it
        return Constant(None)


_loads_decompositions(predispatch.lazy_load_decompositions)
_loads_decompositions(forward_ad._maybe_load_decompositions)


@models(FUNCTORCH.is_batchedtensor)
def is_batchedtensor(tx: TraceContext, tensor: Value) -> Value:
    return Constant(isinstance(tensor, TensorValue) and FUNCTORCH.is_batchedtensor(tensor.fake))


@models(torch._C._autograd._saved_tensors_hooks_get_disabled_error_message)
def hooks_disabled_message(tx: TraceContext) -> Value:
    return Constant(torch._C._autograd._saved_tensors_hooks_get_disabled_error_message())


@models(
    torch._C._autograd._saved_tensors_hooks_disable, torch._C._autograd._saved_tensors_hooks_enable
)
def hooks_switch(tx: TraceContext, *args: Value) -> Value:
    # says only that saving hooks cannot be set inside; nothing captured sets any
    return Constant(None)


@models(eager_transforms._create_differentiable)
def create_differentiable(tx: TraceContext, tensors: Value, level: Value | None = None) -> Value:
    return tx.wrap(_pytree.tree_map, None).call(tx, [tx.wrap(require_gradient, None), tensors], {})


def has_tied_tensors(tx: TraceContext, module: Value) -> bool:
    """Whether a tensor of a module has several names."""
    named: dict[Any, Any] = {}
    for kind in ("named_parameters", "named_buffers"):
        found = module.method(tx, kind, [], {"remove_duplicate": Constant(False)})
        for pair in found.unpack(tx):
            name, tensor = pair.unpack(tx)
            named[name.key(tx)] = tensor.key(tx)
    return len(set(named.values())) < len(named)


@models(stateless._untie_named_tensors_map)
def untie_named_tensors_map(tx: TraceContext, module: Value, tensors: Value) -> Value:
    """A copy where no tensors are tied. torch's own function iterates over sets of names, whose
    order another process does not have: what is captured of it cannot be stored."""
    if not has_tied_tensors(tx, module):
        return tensors.method(tx, "copy", [], {})
    inner = tx.wrap(stateless._untie_named_tensors_map, None)
    assert isinstance(inner, FunctionValue)
    return tx.calls.inline(inner, [module, tensors], {})


def _level(what: str, enter: Any, leave: Any) -> None:
    @models(enter)
    def enter_level(tx: TraceContext, *arguments: Value) -> Value:
        return Constant(tx.modes.enter_level(tx, what, *arguments))

    @models(leave)
    def leave_level(tx: TraceContext, *, level: Value | None = None) -> Value:
        tx.modes.leave_level(tx, what)
        return Constant(None)


_level("vmap", predispatch._vmap_increment_nesting, predispatch._vmap_decrement_nesting)
_level("grad", FUNCTORCH._grad_increment_nesting, FUNCTORCH._grad_decrement_nesting)
_level("jvp", FUNCTORCH._jvp_increment_nesting, FUNCTORCH._jvp_decrement_nesting)
_level("dual", torch._C._enter_dual_level, torch._C._exit_dual_level)


class ForwardMode(OneFrameManager):
    """forward_ad._set_fwd_grad_enabled(mode) enables or disables derivatives in forward mode inside
    a level. As in torch, making it enters it."""

    __slots__ = ()
    cls = forward_ad._set_fwd_grad_enabled

    def exit(self, tx: TraceContext) -> Value:
        tx.modes.leave_level(tx, "forward")
        return Constant(None)


@models(forward_ad._set_fwd_grad_enabled)
def set_fwd_grad_enabled(tx: TraceContext, mode: Value) -> Value:
    tx.modes.enter_level(tx, "forward", Constant(mode.truth(tx)))
    return ForwardMode(tx.frames.break_position())


def require_gradient(tensor: torch.Tensor) -> torch.Tensor:
    """Makes a tensor of the innermost level a leaf that requires a gradient."""
    with eager_transforms.enable_inplace_requires_grad(True):
        return tensor.requires_grad_()


for _function in (
    predispatch._add_batch_dim, predispatch._remove_batch_dim, FUNCTORCH._wrap_for_grad,
    FUNCTORCH._unwrap_for_grad, require_gradient, eager_transforms._autograd_grad,
):  # fmt: skip
    allow(_function)
