"""Adds the biases of convolutions in nodes of their own, where torch needs a kernel for that anyway:
a fused kernel adds them together with the operators that follow."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
import torch.fx

aten = torch.ops.aten


def take_out_biases(graph: torch.fx.Graph, devices: Collection[str] = ("cuda",)) -> int:
    """Changes a functional ATen graph; returns the number of convolutions that lost their bias.
    Grouped ones keep it: their kernels add it."""
    changed = 0
    for node in graph.find_nodes(op="call_function", target=aten.convolution.default):
        bias: Any = node.args[2]
        fake = node.meta["val"]
        if bias is None or fake.device.type not in devices or node.args[8] != 1:
            continue
        node.update_arg(2, None)
        with graph.inserting_after(node):
            added = graph.call_function(aten.add.Tensor)
            node.replace_all_uses_with(added)
        with graph.inserting_before(added):
            column = graph.call_function(aten.view.default, (bias, [-1, *[1] * (fake.dim() - 2)]))
        column.meta = {"val": bias.meta["val"].view(-1, *[1] * (fake.dim() - 2))}
        added.args = (node, column)
        added.meta = {**node.meta, "val": fake + column.meta["val"]}
        if "memory" in node.meta:
            added.meta["memory"] = [object()]
        changed += 1
    return changed
