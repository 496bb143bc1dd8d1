"""Adds the biases of convolutions in nodes of their own, where torch needs a kernel for that too: a
fused kernel adds them together with the operators that follow."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
import torch.fx

aten = torch.ops.aten
GRADIENTS = aten.convolution_backward.default


# device types on which a convolution adds its bias in a kernel of its own
ADDS_APART = ("cuda",)


def take_out_biases(graph: torch.fx.Graph, devices: Collection[str] = ADDS_APART) -> int:
    """Changes a functional ATen graph; returns the number of convolutions that lost their bias.
    Grouped ones keep it: their kernels add it."""
    changed = 0
    for node in graph.find_nodes(op="call_function", target=aten.convolution.default):
        bias: Any = node.args[2]
        if bias is None or node.meta["val"].device.type not in devices or node.args[8] != 1:
            continue
        node.update_arg(2, None)
        users = list(node.users)
        added = add_bias_behind(node, bias)
        for user in users:
            user.replace_input_with(node, added)
        changed += 1
    return changed


def add_bias_behind(convolution: torch.fx.Node, bias: torch.fx.Node) -> torch.fx.Node:
    """A node that adds a bias to the result of a convolution; it has no users yet."""
    graph, fake = convolution.graph, convolution.meta["val"]
    shape = [-1, *[1] * (fake.dim() - 2)]
    with graph.inserting_after(convolution):
        added = graph.call_function(aten.add.Tensor)
    with graph.inserting_before(added):
        column = graph.call_function(aten.view.default, (bias, shape))
    column.meta = {"val": bias.meta["val"].view(shape)}
    added.args = (convolution, column)
    added.meta = {**convolution.meta, "val": fake + column.meta["val"]}
    if "memory" in convolution.meta:
        added.meta["memory"] = [object()]
    return added


def take_out_bias_gradients(graph: torch.fx.Graph, devices: Collection[str] = ADDS_APART) -> int:
    """The same for a backward graph: the gradient of a bias becomes a sum of its own. Returns the
    number of convolutions."""
    changed = 0
    for node in graph.find_nodes(op="call_function", target=GRADIENTS):
        given: Any = node.args[0]
        fake = given.meta["val"]
        wanted: Any = node.args[10]
        if not wanted[2] or fake.device.type not in devices or node.args[9] != 1:
            continue
        dims = [0, *range(2, fake.dim())]
        with graph.inserting_before(node):
            total = graph.call_function(aten.sum.dim_IntList, (given, dims))
        total.meta = {"val": fake.sum(dims), "memory": [object()]}
        image, weight, _ = node.meta["val"]
        node.meta["val"] = image, weight, None
        node.update_arg(10, [*wanted[:2], False])
        for user in list(node.users):
            if user.args[1] == 2:
                user.replace_all_uses_with(total)
                graph.erase_node(user)
        if not any(wanted[:2]):
            graph.erase_node(node)
        changed += 1
    return changed
