"""Operators whose result would have other strides in a functional graph than in eager.

In-place operators whose functional form creates a new layout become that form and a copy into the
tensor. Batch norms get inputs in the memory format of their result: eager's is contiguous or
channels-last, but a batch norm decomposed into elementwise operators keeps the input's.

Example: `x.cumsum_(0)` keeps the strides of a transposed x. Its functional form `x = x.cumsum(0)`
is contiguous, and so is whatever is computed from it. `x.copy_(x.cumsum(0))` keeps x's strides in a
functional graph, too.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.fx

from ..fake_values import fake_of
from ..memory import is_strided
from ..memory_formats import format_of_norm, is_in_format
from ..node_targets import name_of, run_node
from ..wrappers import fake_mode_of

# Methods whose form without the underscore has a result of another layout than their tensor.
LAYS_OUT_ANEW = frozenset(
    """masked_fill_ masked_scatter_ index_fill_ index_add_ index_copy_ index_reduce_ scatter_
    scatter_add_ scatter_reduce_ cumsum_ cumprod_
    renorm_ tril_ triu_ addmm_ addbmm_ mvlgamma_ floor_divide_ xlogy_ copysign_""".split()
)


BATCH_NORMS = frozenset(
    {"batch_norm", "native_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update"}
)


# Methods that are replaced by another one with the same effect: its name and arguments. In torch
# 2.11 the functional form of `zero_` is contiguous; that of `fill_` is laid out like its tensor.
SAME_LAYOUT = {"zero_": ("fill_", (0,))}


def keep_layouts(gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """A copy of a captured graph without such operators on non-contiguous tensors; the graph itself
    if it has none."""
    if not any(lays_out_anew(node) or is_norm_of_other_form(node) for node in gm.graph.nodes):
        return gm
    graph = torch.fx.Graph()
    output = graph.output(graph.graph_copy(gm.graph, {}))
    output.meta = dict(gm.graph.output_node().meta)
    for node in list(graph.nodes):
        if lays_out_anew(node):
            rewrite_in_place(graph, node)
        elif is_norm_of_other_form(node):
            normalise_copy(graph, node)
    changed = torch.fx.GraphModule(gm, graph, class_name=type(gm).__name__)
    changed.meta = gm.meta
    return changed


def lays_out_anew(node: torch.fx.Node) -> bool:
    if (
        node.op != "call_method"
        or (node.target not in LAYS_OUT_ANEW and node.target not in SAME_LAYOUT)
        or not isinstance(node.args[0], torch.fx.Node)
    ):
        return False
    return is_strided(node.args[0]) and not node.args[0].meta["example_value"].is_contiguous()


def rewrite_in_place(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    """Replaces such a node by one or two nodes that keep the layout."""
    if node.target in SAME_LAYOUT:
        node.target, arguments = SAME_LAYOUT[str(node.target)]
        node.args = (node.args[0], *arguments)
    else:
        write_by_copy(graph, node)


def write_by_copy(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    """`x.op_(...)` becomes `x.copy_(x.op(...))`."""
    target = node.args[0]
    with graph.inserting_before(node):
        new = graph.call_method(str(node.target).removesuffix("_"), node.args, node.kwargs)
        copied = graph.call_method("copy_", (target, new))
    new.meta = {**node.meta, "example_value": fake_result(new)}
    copied.meta = dict(node.meta)
    node.replace_all_uses_with(copied)
    graph.erase_node(node)


def is_norm_of_other_form(node: torch.fx.Node) -> bool:
    """Whether it is a batch norm of a tensor that is neither contiguous nor channels-last."""
    if (
        name_of(node) not in BATCH_NORMS
        or not node.args
        or not isinstance(node.args[0], torch.fx.Node)
    ):
        return False
    fake: Any = fake_of(node.args[0])
    form = format_of_norm(fake) if is_strided(node.args[0]) else None
    return form is not None and not is_in_format(fake, form)


def normalise_copy(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    """`batch_norm(x)` becomes `batch_norm(x.contiguous())`, in the memory format of the result."""
    given: Any = node.args[0]
    fake = given.meta["example_value"]
    form = format_of_norm(fake)
    assert form is not None, "is_norm_of_other_form has found it"
    with graph.inserting_before(node):
        copied = graph.call_method("contiguous", (given,), {"memory_format": form})
    with fake_mode_of(fake), torch.no_grad():
        made = torch.empty_like(fake, memory_format=form)
    copied.meta = {**given.meta, "example_value": made.requires_grad_(fake.requires_grad)}
    node.args = (copied, *node.args[1:])


def fake_result(node: torch.fx.Node) -> torch.Tensor:
    """The result of a method on fake tensors, which requires a gradient if one of its tensors
    does."""
    tensors = [other.meta["example_value"] for other in node.all_input_nodes]
    with torch.no_grad(), fake_mode_of(tensors[0]):
        made: torch.Tensor = run_node(node, lambda other: other.meta["example_value"])
    return made.requires_grad_(
        any(isinstance(tensor, torch.Tensor) and tensor.requires_grad for tensor in tensors)
    )
