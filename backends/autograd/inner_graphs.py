"""The graphs of inner tensors behind a captured graph on wrapper subclasses.

aot_autograd traces the captured graph through the classes' `__torch_dispatch__`, so that only
operators on inner tensors remain. Around a call it takes the inputs apart by `__tensor_flatten__`
and makes the results by `__tensor_unflatten__`; autograd sees the wrappers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.fx

from .graph_parts import GraphPart, compile_forward_and_backward

CompileGraph = Callable[[torch.fx.GraphModule, list[Any]], Callable[..., Any]]


def compile_inner_graphs(
    gm: torch.fx.GraphModule, example_inputs: list[Any], compile_graph: CompileGraph
) -> Callable[..., Any]:
    """Compiles the forward and the backward graph of inner tensors, each with `compile_graph`,
    which takes them as captured graphs without gradients."""

    def compile_part(part: GraphPart) -> Callable[..., Any]:
        module = part.module()
        for node in module.graph.nodes:
            if "val" in node.meta:
                node.meta["example_value"] = node.meta["val"]
        return compile_graph(module, list(part.examples))

    return compile_forward_and_backward(gm, example_inputs, compile_part, random_like_eager=False)
