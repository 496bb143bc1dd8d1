"""In-place operators whose functional form lays its result out anew, as calls of that form and a
copy into the tensor.

`x.cumsum_(0)` leaves a transposed x as it lies in memory; `x = x.cumsum(0)`, which a functional
graph has for it, is contiguous, and so is whatever is made of it from there on.
`x.copy_(x.cumsum(0))` keeps x's strides in a functional graph, too.
"""

from __future__ import annotations

import torch
import torch.fx

from .memory import is_strided

# Methods, each with a form without the underscore, whose result does not lie in memory as their
# tensor does.
LAYS_OUT_ANEW = frozenset(
    """masked_fill_ masked_scatter_ index_fill_ index_add_ index_copy_ index_reduce_ scatter_ scatter_add_ scatter_reduce_ cumsum_ cumprod_
    renorm_ tril_ triu_ addmm_ addbmm_ mvlgamma_ floor_divide_ xlogy_ copysign_""".split()
)


def keep_layouts(gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """A copy of a captured graph without such operators on tensors that are not contiguous; the
    graph itself where it has none."""
    if not any(map(lays_out_anew, gm.graph.nodes)):
        return gm
    graph = torch.fx.Graph()
    output = graph.output(graph.graph_copy(gm.graph, {}))
    output.meta = dict(gm.graph.output_node().meta)
    for node in list(graph.nodes):
        if lays_out_anew(node):
            write_by_copy(graph, node)
    changed = torch.fx.GraphModule(gm, graph, class_name=type(gm).__name__)
    changed.meta = gm.meta
    return changed


def lays_out_anew(node: torch.fx.Node) -> bool:
    if (
        node.op != "call_method"
        or node.target not in LAYS_OUT_ANEW
        or not isinstance(node.args[0], torch.fx.Node)
    ):
        return False
    return is_strided(node.args[0]) and not node.args[0].meta["example_value"].is_contiguous()


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


def fake_result(node: torch.fx.Node) -> torch.Tensor:
    """What a method returns, on fake tensors; with a gradient where one of its tensors has one."""
    tensors = [other.meta["example_value"] for other in node.all_input_nodes]
    args, kwargs = torch.fx.node.map_arg(
        (node.args, node.kwargs), lambda other: other.meta["example_value"]
    )
    with torch.no_grad(), tensors[0].fake_mode:
        made: torch.Tensor = getattr(args[0], str(node.target))(*args[1:], **kwargs)
    return made.requires_grad_(
        any(isinstance(tensor, torch.Tensor) and tensor.requires_grad for tensor in tensors)
    )
