"""Tensor.backward(): becomes torch.autograd.grad() with respect to the leaves that the pass
reaches, and the storing of what it gives in their `.grad`.

That is what autograd's AccumulateGrad does: the first gradient of a leaf becomes its `.grad`, with
the strides of the leaf and on memory of its own; a later one is added in place.
"""

from __future__ import annotations

from typing import TypeGuard

import torch
from torch._C._functorch import maybe_current_level

from ....backends.graph.freed_results import CALLED_AT
from ....backends.graph.gradient_history import leaves_reached_from
from ....backends.graph.memory import memory_at, memory_of
from ....backends.graph.wrappers import is_wrapper
from ....errors import GraphBreak
from ....guards.source import AttrSource
from ..base import Value
from ..constant import Constant
from ..containers.list import ListValue
from ..context import TraceContext
from ..registry import method
from ..tensor.tensor import TensorValue
from ..tensor.traced_call import NoEffects
from .autograd import is_hook

NONE, FALSE = Constant(None), Constant(False)
HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")  # of a leaf


@method(torch.Tensor, "backward")
def backward(
    tx: TraceContext,
    self: TensorValue,
    gradient: Value = NONE,
    retain_graph: Value = NONE,
    create_graph: Value = FALSE,
    *others: Value,
    **options: Value,
) -> Value:
    """Breaks where something else than the gradients of leaves comes of the pass: hooks, gradients
    of what was calculated before the graph or is no leaf, a graph of the pass itself."""
    keeps = tx.look(retain_graph)
    if others or options or not keeps.is_constant() or tx.look(create_graph).truth(tx):
        raise break_here("with other options than `gradient` and `retain_graph`")
    if has_hooks(tx) or torch.is_anomaly_enabled():
        raise break_here("with hooks, inside a transform, or in anomaly mode")
    values = [item.value for item in tx.graph.inputs]
    inputs = {id(value.fake): value for value in values if isinstance(value, TensorValue)}
    leaves = [leaf_of(tx, inputs.get(id(fake))) for fake in leaves_reached_from(self.fake)]
    if not leaves:
        raise break_here("of what has no leaves")
    in_use = {memory_at(node) for node in tx.graph.nodes}
    in_use |= {memory_of(one.fake) for one in inputs.values() if is_strided(one)}
    wanted = ListValue(list[Value](leaves))
    found = tx.graph.function(torch.autograd.grad, self, wanted, gradient, retain_graph).unpack(tx)
    if not keeps.truth(tx):
        mark(tx)
    for leaf, given in zip(leaves, found, strict=True):
        if not is_strided(given):
            raise break_here("with sparse gradients")
        accumulate(tx, leaf, given, memory_of(given.fake) in in_use)
        in_use.add(memory_of(given.fake))
    return Constant(None)


def break_here(what: str) -> GraphBreak:
    return GraphBreak("unknown-call", f"Tensor.backward() {what}")


def has_hooks(tx: TraceContext) -> bool:
    """Whether the pass would run hooks of the graph, or runs inside a transform or a subgraph."""
    return (
        maybe_current_level() is not None
        or isinstance(tx.effects, NoEffects)
        or any(map(is_hook, tx.graph.nodes))
    )


def is_strided(value: Value) -> TypeGuard[TensorValue]:
    return isinstance(value, TensorValue) and value.fake.layout is torch.strided


def leaf_of(tx: TraceContext, leaf: TensorValue | None) -> TensorValue:
    """An input of the graph that is a leaf. Breaks for a leaf that is no input, and for one that
    has hooks."""
    if leaf is None or leaf.source is None or leaf.real is None:
        raise break_here("that reaches other leaves than inputs of the graph")
    if not leaf.is_leaf(tx) or is_wrapper(type(leaf.fake)) or leaf.fake.is_complex():
        raise break_here("with respect to a tensor that is no plain leaf")
    for name in HOOKS:
        if tx.wrap(getattr(leaf.real, name), AttrSource(leaf.source, name)).truth(tx):
            raise break_here("with hooks on a leaf")
    return leaf


def mark(tx: TraceContext) -> None:
    """Notes in the node of a pass, the last one, that it frees the graph."""
    made = next(node for node in reversed(tx.graph.nodes) if node.target is torch.autograd.grad)
    made.meta[CALLED_AT] = tx.frames.break_position()


def accumulate(tx: TraceContext, leaf: TensorValue, given: TensorValue, shared: bool) -> None:
    """Stores a gradient. shared: whether its memory is in use by another tensor."""
    before = tx.look(leaf.attribute(tx, "grad"))
    if before.is_none():
        stored = (
            copy_gradient(tx, leaf, given)
            if shared or not has_gradient_strides(leaf.fake, given.fake)
            else given
        )
        leaf.set_attribute(tx, "grad", stored)
    elif is_strided(before) and not before.fake.requires_grad:
        tx.graph.call("call_method", "add_", [before, given], {})
    else:
        raise break_here("into a `.grad` that is sparse or requires gradients")


def is_dense(fake: torch.Tensor) -> bool:
    """Whether a tensor fills its memory, in some order of dimensions."""
    return bool(torch.ops.aten.is_non_overlapping_and_dense.default(fake))


def has_gradient_strides(leaf: torch.Tensor, gradient: torch.Tensor) -> bool:
    """Whether a gradient has the strides that torch gives to those of a leaf."""
    if not is_dense(leaf):
        return gradient.is_contiguous()
    pairs = zip(leaf.shape, leaf.stride(), gradient.stride(), strict=True)
    return all(size == 1 or mine == its for size, mine, its in pairs)


def copy_gradient(tx: TraceContext, leaf: TensorValue, gradient: TensorValue) -> TensorValue:
    """A copy of a gradient with the strides that torch gives to those of a leaf."""
    if is_dense(leaf.fake):
        made = tx.graph.function(torch.empty_like, leaf, requires_grad=FALSE)
        tx.graph.call("call_method", "copy_", [made, gradient], {})
    else:
        layout = Constant(torch.contiguous_format)
        made = tx.graph.function(torch.clone, gradient, memory_format=layout)
    assert isinstance(made, TensorValue)
    return made
