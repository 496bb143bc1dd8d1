"""flex_attention for backends that do not know it: as Triton kernels on a GPU, or as a graph of
torch's operators: the matrix of scores, what the program's functions make of it, and a softmax. A
compiler joins these steps.

In: a captured graph that calls flex_attention. Out: the same as kernels or as ATen operators, or
neither. Formulas are those of torch's own operator (`sdpa_dense`), which is run on fake tensors.
"""

from __future__ import annotations

import importlib
from typing import Any

import torch.fx

from ...events import Reporter
from ..graph.fake_values import fake_of
from ..graph.gradient_history import needs_gradient
from ..graph.higher_order_call import HigherOrderCall
from ..graph.passes.functional import functional
from ..registry import import_shipped

NAME = "flex_attention"


class WrittenAttention:
    """A node's target: computes flex_attention by torch's operators."""

    def __init__(self, call: HigherOrderCall) -> None:
        self.__name__, self.call = call.__name__, call
        module = importlib.import_module("torch._higher_order_ops.flex_attention")
        self.function: Any = module.sdpa_dense

    def __call__(self, *operands: Any) -> Any:
        return self.function(*self.call.arguments_for(operands))


def calls_attention(node: torch.fx.Node) -> bool:
    return isinstance(node.target, HigherOrderCall) and node.target.name == NAME


def run_as_kernels(gm: torch.fx.GraphModule, report: Reporter) -> bool:
    """Makes calls of flex_attention on a GPU calls of kernels. Where that cannot be done for all,
    the graph stays as it is."""
    calls = list(filter(calls_attention, gm.graph.nodes))
    native = import_shipped("native", "native.backend")
    if native is None or not {*map(device_type, calls)} <= {"cuda"} & native.usable_devices():
        return False
    module = importlib.import_module("..native.attention.flex_call", __package__)
    try:
        targets = list(map(module.flex_call, calls))
    except Exception as error:  # of torch's tracer, or of a function that depends on values
        report(f"flex_attention runs without kernels: {type(error).__name__}: {error}")
        return False
    for call, target in zip(calls, targets, strict=True):
        call.target = target
    gm.recompile()
    return True


def device_type(call: torch.fx.Node) -> str:
    fake = fake_of(call.args[0])
    return fake.device.type if isinstance(fake, torch.Tensor) else ""


def write_out_attention(gm: torch.fx.GraphModule) -> torch.fx.GraphModule | None:
    """The graph with each call written out; None where that cannot be done, and `gm` is as it
    was."""
    calls = {node: node.target for node in filter(calls_attention, gm.graph.nodes)}
    if any(map(is_trained, calls)):
        return None
    for node, call in calls.items():
        node.target = WrittenAttention(call)
    try:
        return captured_form(gm, functional(gm, {}))
    except Exception:  # of torch's tracer, or of a function that depends on values
        return None
    finally:
        for node, call in calls.items():
            node.target = call


def is_trained(node: torch.fx.Node) -> bool:
    """Whether gradients flow through attention: torch's operator has rules of its own for rows that
    are masked as a whole, and none on a CPU, where it raises."""
    return any(map(needs_gradient, node.users))


def captured_form(gm: torch.fx.GraphModule, traced: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The traced graph as if it had been captured."""
    graphs = (gm.graph, traced.graph)
    given, inputs = (graph.find_nodes(op="placeholder") for graph in graphs)
    for mine, node in zip(given, inputs, strict=True):
        node.meta = dict(mine.meta)
    for node in traced.graph.nodes:
        if node.op not in ("placeholder", "output"):
            node.meta["example_value"] = node.meta["val"]
    return traced
