"""Replaces attention that is written out - softmax(q @ k * scale) @ v - by one call of
scaled_dot_product_attention.

Not with masks: a fully masked row is NaN in the written form and 0 in torch's kernels. Not with
gradients: torch's kernels have no second derivative.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.fx
from torch.nn.functional import scaled_dot_product_attention

from ....records import record
from ..fake_values import fake_of
from ..mutations import may_write
from ..node_targets import name_of

PRODUCTS = ("matmul", "bmm", "__matmul__")
SHORTEST = 1 << 14  # elements of the score matrix, from which on the CPU's kernel pays


@record
class Attention:
    """A match. `keys`: with the last two dimensions transposed, as the product takes them. `parts`:
    the nodes that only `result` needs, the last one first."""

    queries: torch.fx.Node
    keys: torch.fx.Node
    values: torch.fx.Node
    scale: float
    result: torch.fx.Node
    parts: tuple[torch.fx.Node, ...]


def join_attention(gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """A copy of the graph with such calls; the graph itself if there are none."""
    if next(find_attention(gm.graph), None) is None:
        return gm
    graph = torch.fx.Graph()
    results = graph.graph_copy(gm.graph, {})
    output = graph.output(results)
    output.meta = dict(gm.graph.output_node().meta)
    while (found := next(find_attention(graph), None)) is not None:
        node = found.result
        with graph.inserting_before(node):
            keys = graph.call_method("transpose", (found.keys, -2, -1))
            arguments = (found.queries, keys, found.values)
            joined = graph.call_function(
                scaled_dot_product_attention, arguments, {"scale": found.scale}
            )
            like_eager = graph.call_method("contiguous", (joined,))  # strides, as the product's
        like_eager.meta = dict(node.meta)
        node.replace_all_uses_with(like_eager)
        for part in (node, *found.parts):
            for dead in list(part.users):
                graph.erase_node(dead)
            graph.erase_node(part)
    return torch.fx.GraphModule(gm, graph, class_name=type(gm).__name__)


def find_attention(graph: torch.fx.Graph) -> Iterator[Attention]:
    """The matches, in order."""
    places = {node: place for place, node in enumerate(graph.nodes)}
    written = [place for node, place in places.items() if may_write(node)]
    for node in graph.nodes:
        found = match(node) if is_product(node) else None
        if found is not None and not any(
            places[found.parts[-1]] < place < places[node] for place in written
        ):
            yield found


def match(result: torch.fx.Node) -> Attention | None:
    """The attention that ends in this product."""
    weights = result.args[0]
    if not isinstance(weights, torch.fx.Node) or not is_softmax(weights) or not used_once(weights):
        return None
    scores, scale, scaling = find_scale(weights.args[0])
    if scores is None or not is_product(scores) or not used_once(scores):
        return None
    nodes = (scores.args[0], scores.args[1], result.args[1])
    queries, keys, values = map(tensor, nodes)
    if (
        queries is None
        or keys is None
        or values is None
        or queries.dim() < 3
        or not queries.dtype.is_floating_point
    ):
        return None
    alike = len({(t.dtype, t.device, str(t.shape[:-2])) for t in (queries, keys, values)}) == 1
    if not alike or any(
        part.meta["example_value"].dtype != queries.dtype for part in (scores, weights, result)
    ):
        return None  # shapes are broadcast, or autocast is at work
    if queries.device.type == "cpu" and not is_long(queries.shape[-2], keys.shape[-1]):
        return None
    first, second, third = nodes
    replaced = (weights, *scaling, scores)
    return Attention(first, second, third, scale, result, replaced)  # type: ignore[arg-type]


def is_long(rows: int | torch.SymInt, columns: int | torch.SymInt) -> bool:
    return isinstance(rows, int) and isinstance(columns, int) and rows * columns >= SHORTEST


def is_product(node: Any) -> bool:
    return (
        isinstance(node, torch.fx.Node)
        and name_of(node) in PRODUCTS
        and len(node.args) == 2
        and not node.kwargs
    )


def is_softmax(node: torch.fx.Node) -> bool:
    """Whether a node is a softmax over the last dimension that does not change the dtype."""
    if name_of(node) != "softmax" or not node.args or tensor(node) is None:
        return False
    given = dict(zip(("input", "dim", "_stacklevel", "dtype"), node.args, strict=False)) | dict(
        node.kwargs
    )
    if given.get("dtype") is not None or isinstance(given.get("_stacklevel", 3), torch.dtype):
        return False
    return given.get("dim") in (-1, node.meta["example_value"].dim() - 1)


def find_scale(node: Any) -> tuple[torch.fx.Node | None, float, tuple[torch.fx.Node, ...]]:
    """The scaled node, the factor, and the node that multiplies or divides; without one, the node
    itself."""
    if not isinstance(node, torch.fx.Node):
        return None, 1.0, ()
    name = name_of(node)
    if (
        name in ("mul", "truediv", "div")
        and len(node.args) == 2
        and not node.kwargs
        and used_once(node)
    ):
        left, right = node.args
        if name == "mul" and isinstance(left, (int, float)):
            left, right = right, left
        if (
            isinstance(left, torch.fx.Node)
            and isinstance(right, (int, float))
            and not isinstance(right, bool)
            and right != 0
        ):
            return left, float(right) if name == "mul" else 1.0 / right, (node,)
    return node, 1.0, ()


def used_once(node: torch.fx.Node) -> bool:
    return (
        len([user for user in node.users if user.users or user.op == "output" or may_write(user)])
        == 1
    )


def tensor(node: Any) -> torch.Tensor | None:
    fake = fake_of(node)
    return fake if isinstance(fake, torch.Tensor) and fake.layout == torch.strided else None
