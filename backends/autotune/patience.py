"""When other backends are tried on a graph: once it has run for so long in eager that what trying
costs is likely to be earned back.

Nobody knows how often a program will call a graph. The rule is that of renting skis: as long as the
time spent in a graph is small beside what compiling it takes, it runs as captured; then it is
compiled. So a program that ends soon loses little, and one that goes on is compiled early in its
life (Karlin et al., Competitive Snoopy Caching, 1988).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx

from ..graph.gradient_history import wants_gradients
from ..graph.node_targets import name_of
from ..graph.supported import device_types

# Seconds that compiling and measuring take, as observed on two cores: of a graph, of an operator.
GRAPH_S, OPERATOR_S = 0.5, 0.01
BACKWARD = 2.0  # times the forward pass, in running and in compiling
# What eager takes for an operator, in seconds, and does in a second, of arithmetic and of bytes.
LAUNCH_S = {"cpu": 3e-6, "cuda": 8e-6}
FLOPS = {"cpu": 3e10, "cuda": 2e13}
BYTES = {"cpu": 5e9, "cuda": 1e12}
AT_ONCE = 10  # a graph that would be due within so many calls is tried at the first
FEWEST = 3  # calls before it is known what one takes: the first ones are slow
PRODUCTS = frozenset({"linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "einsum"})


@dataclass(frozen=True)
class Forecast:
    """compile_s: seconds that trying backends is likely to take; call_s: that a call takes in
    eager, its backward pass included; share: of call_s that the forward pass has."""

    compile_s: float
    call_s: float
    share: float = 1.0

    def due_s(self, patience: float) -> float:
        """Seconds of running in eager after which trying begins; 0 for at the first call."""
        due = patience * self.compile_s
        return 0.0 if self.call_s * AT_ONCE >= due else due


def forecast(gm: torch.fx.GraphModule) -> Forecast:
    """An estimate from the operators of a captured graph and the sizes of their results."""
    kinds = device_types(gm)
    device = "cuda" if "cuda" in kinds else "cpu"
    nodes = [node for node in gm.graph.nodes if node.op.startswith("call_")]
    times = (1 + BACKWARD) if wants_gradients(gm) else 1.0
    call = sum(
        max(LAUNCH_S[device], flops(node) / FLOPS[device], bytes_made(node) / BYTES[device])
        for node in nodes
    )
    return Forecast((GRAPH_S + OPERATOR_S * len(nodes)) * times, call * times, 1 / times)


def flops(node: torch.fx.Node) -> float:
    """Multiplications and additions of a product or convolution; 0 for other operators."""
    name, result = name_of(node).strip("_"), sizes(node)
    if name in PRODUCTS and node.all_input_nodes:
        return 2.0 * math.prod(result) * (sizes(node.all_input_nodes[0]) or [1])[-1]
    if name.startswith("conv") and len(node.all_input_nodes) > 1:
        return 2.0 * math.prod(result) * math.prod(sizes(node.all_input_nodes[1])[1:])
    if name == "scaled_dot_product_attention" and len(node.all_input_nodes) > 1:
        return 4.0 * math.prod(result) * (sizes(node.all_input_nodes[1]) or [1, 1])[-2]
    return 0.0


def bytes_made(node: torch.fx.Node) -> float:
    fake = node.meta.get("example_value")
    return math.prod(sizes(node)) * fake.element_size() if isinstance(fake, torch.Tensor) else 0.0


def sizes(node: torch.fx.Node) -> list[float]:
    """The sizes of a node's result; of those that vary what they were at capture."""
    fake = node.meta.get("example_value")
    if not isinstance(fake, torch.Tensor) or fake.layout is not torch.strided:
        return []
    return [
        float(size.node.hint or 1) if isinstance(size, torch.SymInt) else float(size)
        for size in fake.shape
    ]


class Waiting:
    """A graph as captured, which asks for a compile once it has run for `due_s` seconds. share: of
    a call's time that can be seen here."""

    def __init__(
        self, forward: Callable[..., Any], due_s: float, share: float, promote: Callable[[], None]
    ) -> None:
        self.forward, self.due_s, self.share, self.promote = forward, due_s, share, promote
        self.calls, self.least_s = 0, math.inf

    def __call__(self, *args: Any) -> Any:
        start = time.perf_counter()
        result = self.forward(*args)
        self.least_s = min(self.least_s, time.perf_counter() - start)
        self.calls += 1
        if self.calls >= FEWEST and self.calls * self.least_s >= self.due_s * self.share:
            self.calls = -(1 << 62)  # once
            self.promote()
        return result
