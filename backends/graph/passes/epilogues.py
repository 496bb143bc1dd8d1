"""Fuses an activation into the product with bias before it (cuBLASLt's epilogues), so that it is
applied before the result is stored. In a functional ATen graph without gradients, on CUDA, for relu
and the tanh form of gelu."""

from __future__ import annotations

from collections.abc import Collection

import torch
import torch.fx

aten = torch.ops.aten
VIEWS = (aten.view.default, aten._unsafe_view.default, aten.reshape.default)


def join_epilogues(gm: torch.fx.GraphModule, devices: Collection[str] = ("cuda",)) -> int:
    """Changes the graph; returns the number of fused activations."""
    joined = 0
    for node in list(gm.graph.nodes):
        product = product_before(node) if is_activation(node) else None
        if product is None or not fits(product, devices):
            continue
        with gm.graph.inserting_before(product):
            fused = gm.graph.call_function(
                aten._addmm_activation.default,
                product.args,
                {"use_gelu": node.target is aten.gelu.default},
            )
        fused.meta = dict(product.meta)
        product.replace_all_uses_with(fused)
        node.replace_all_uses_with(node.args[0])
        gm.graph.erase_node(node)
        gm.graph.erase_node(product)
        joined += 1
    return joined


def is_activation(node: torch.fx.Node) -> bool:
    if node.target is aten.gelu.default:
        return node.kwargs.get("approximate", *node.args[1:2] or ("none",)) == "tanh"
    return node.target is aten.relu.default


def product_before(node: torch.fx.Node) -> torch.fx.Node | None:
    """The product whose result, or a view of it, only this node uses."""
    source = node.args[0]
    while isinstance(source, torch.fx.Node) and source.target in VIEWS and len(source.users) == 1:
        source = source.args[0]
    found = (
        isinstance(source, torch.fx.Node)
        and source.target is aten.addmm.default
        and len(source.users) == 1
        and not source.kwargs
    )
    return source if found else None  # type: ignore[return-value]


def fits(product: torch.fx.Node, devices: Collection[str]) -> bool:
    """Whether the operator takes these arguments: a bias for each column, real numbers."""
    bias, result = product.args[0].meta["val"], product.meta["val"]  # type: ignore[union-attr]
    floating = result.dtype in (torch.float16, torch.bfloat16, torch.float32)
    return (
        bias.dim() == 1
        and bias.shape[0] == result.shape[1]
        and floating
        and result.device.type in devices
    )
