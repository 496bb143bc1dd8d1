"""When backends are tried on a graph: once it has run in eager for so long that the cost of trying
is likely to be recovered.

How often a program will call a graph is unknown. The rule is that of the ski rental problem: while
the time spent in a graph is small compared with the time of compiling it, the graph runs as
captured; then it is compiled. So a program that ends soon loses little, and one that goes on is
compiled early (Karlin et al., Competitive Snoopy Caching, 1988).
"""

from __future__ import annotations

import math
import operator
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.fx

from ...records import record
from ...tier import Tier
from ..graph.collectives import is_on_distributed_tensors
from ..graph.fake_values import fake_of
from ..graph.gradient_history import wants_gradients
from ..graph.node_targets import name_of
from ..graph.supported import device_types

# Seconds that compiling and measuring take, as observed on two cores, and on sixteen beside a GPU:
# of a graph, of an operator, and of each kind of operator, as kernels for equal ones are made once.
GRAPH_S = {"cpu": 0.5, "cuda": 1.5}
OPERATOR_S = {"cpu": 0.01, "cuda": 0.003}
KIND_S = {"cpu": 0.004, "cuda": 0.03}
LOADING_S = 1.2  # seconds that it takes to import TRACING, which torch's tracing needs
TRACING = "torch._dynamo"
# The same of capturing it, on the same machine. A capture that takes longer means that compiling
# takes longer too: the machine is slower or busy, or sizes vary.
CAPTURE_GRAPH_S, CAPTURE_OPERATOR_S = 0.1, 0.0025
CAPTURE_PHASES = ("trace", "fake_tensors")
MOST_SLOWNESS = 4.0  # a capture may also take long because of what is not in the graph
BACKWARD = 2.0  # factor for the backward pass, in running and in compiling
# Eager's seconds for an operator, and those that one on distributed tensors takes in addition, all
# of which compiling saves; its rates of arithmetic and of bytes per second.
LAUNCH_S = {"cpu": 3e-6, "cuda": 8e-6}
DISTRIBUTED_S = 1.5e-4
FLOPS = {"cpu": 3e10, "cuda": 2e13}
HALVES = (torch.bfloat16, torch.float16)
HALVES_ON_GPU = 10.0  # factor of the rate of arithmetic there
BYTES = {"cpu": 5e9, "cuda": 1e12}
AT_ONCE = 10  # a graph that would be due within so many calls is tried at its first call
FEWEST = 3  # calls before the time of a call is known: the first ones are slow
# begins the reason that is reported for a graph that waits
WAITING = "for now: others are tried after"
# The part of the time that compiling saves: of products and convolutions, which run as torch's own,
# and of other operators, which are fused. On a GPU, recording also saves the launches of both.
SAVED_OF_PRODUCTS = 0.1
SAVED_OF_OTHERS = {"cpu": 0.5, "cuda": 1.0}
PRODUCT_LAUNCHES = 3  # a product on the CPU takes as long as so many other operators, at least
PRODUCTS = frozenset({"linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "einsum"})


@record
class Forecast:
    """The expected cost of trying backends, and of a call. compile_s: expected seconds of trying.
    call_s: seconds of a call in eager, with its backward pass. share: the forward pass's fraction
    of call_s. on_gpu: whether it runs there. saved: the part of call_s that compiling may save."""

    compile_s: float
    call_s: float
    share: float = 1.0
    on_gpu: bool = False
    saved: float = 1.0

    @property
    def device_s(self) -> float:
        """Seconds of a forward pass that the host does not wait for."""
        return self.call_s * self.share if self.on_gpu else 0.0

    def due_s(self, patience: float) -> float:
        """Seconds in eager after which backends are tried; 0 for the first call."""
        due = patience * self.compile_s / self.saved
        return 0.0 if self.call_s * AT_ONCE >= due else due


def forecast(gm: torch.fx.GraphModule) -> Forecast:
    """An estimate from the operators of a captured graph and the sizes of their results."""
    device = "cuda" if "cuda" in device_types(gm) else "cpu"
    nodes = [node for node in gm.graph.nodes if is_operator(node)]
    kinds = {(name_of(node), *map(str, sizes(node))) for node in nodes}
    compile_s = GRAPH_S[device] + OPERATOR_S[device] * len(nodes) + KIND_S[device] * len(kinds)
    call = saved = 0.0
    for node in nodes:
        took, part = time_of(node, device)
        more = DISTRIBUTED_S if is_on_distributed_tensors(node) else 0.0
        call, saved = call + took + more, saved + took * part + more
    times = (1 + BACKWARD) if wants_gradients(gm) else 1.0
    compile_s *= times
    if TRACING not in sys.modules:
        compile_s += LOADING_S
    part = saved / call if call else 1.0
    return Forecast(compile_s, call * times, 1 / times, device == "cuda", part)


def time_of(node: torch.fx.Node, device: str) -> tuple[float, float]:
    """Eager's seconds for an operator, and the part of them that compiling may save."""
    others = max(LAUNCH_S[device], bytes_made(node) / BYTES[device])
    work = flops(node)
    launches = PRODUCT_LAUNCHES if work and device == "cpu" else 1
    product = max(work / rate_of(node, device), launches * LAUNCH_S[device])
    if work and product > others:
        return product, SAVED_OF_PRODUCTS
    return others, SAVED_OF_OTHERS[device]


def rate_of(node: torch.fx.Node, device: str) -> float:
    """Operations of arithmetic per second."""
    fake = fake_of(node)
    halves = isinstance(fake, torch.Tensor) and fake.dtype in HALVES and device == "cuda"
    return FLOPS[device] * (HALVES_ON_GPU if halves else 1.0)


def is_operator(node: torch.fx.Node) -> bool:
    """Whether a node is more than an item of another one's result."""
    return node.op.startswith("call_") and node.target is not operator.getitem


def slowness(gm: torch.fx.GraphModule, seconds: Mapping[str, float]) -> float:
    """How many times longer than forecast compiling a graph is likely to take, by the time that its
    capture took; at least 1. seconds: of the phases of this compile."""
    operators = sum(map(is_operator, gm.graph.nodes))
    usual = CAPTURE_GRAPH_S + CAPTURE_OPERATOR_S * operators
    took = sum(seconds.get(phase, 0.0) for phase in CAPTURE_PHASES)
    return min(max(1.0, took / usual), MOST_SLOWNESS)


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
    """The bytes of a node's results."""
    fake = fake_of(node)
    return math.prod(sizes(node)) * fake.element_size() if isinstance(fake, torch.Tensor) else 0.0


def sizes(node: torch.fx.Node) -> list[float]:
    """The sizes of a node's result; for dynamic ones, those at capture."""
    fake = fake_of(node)
    if not isinstance(fake, torch.Tensor) or fake.layout is not torch.strided:
        return []
    return [
        float(size.node.hint or 1) if isinstance(size, torch.SymInt) else float(size)
        for size in fake.shape
    ]


class WaitingGraph:
    """Runs a graph as captured, and requests a compile once its forward pass has run for `due_s`
    seconds. device_s: what a call takes at least, as a GPU may still work when it returns. gain:
    what compiling saves of a call and its backward pass, as a part of the call's time."""

    def __init__(
        self,
        forward: Callable[..., Any],
        due_s: float,
        tier: Tier,
        device_s: float = 0.0,
        gain: float = 1.0,
    ) -> None:
        self.forward, self.due_s, self.tier, self.device_s = forward, due_s, tier, device_s
        self.gain = gain
        self.calls, self.least_s = 0, math.inf
        tier.wait(due_s)

    def __call__(self, *args: Any) -> Any:
        start = time.perf_counter()
        result = self.forward(*args)
        self.least_s = min(self.least_s, time.perf_counter() - start)
        self.calls += 1
        took = max(self.least_s, self.device_s)
        self.tier.savable_s += took * self.gain
        if self.calls >= FEWEST and self.calls * took >= self.due_s:
            self.calls = -(1 << 62)  # once
            self.tier.promote()
        return result

    def __reduce__(self) -> Any:
        arguments = self.forward, self.due_s, self.tier, self.device_s, self.gain
        return WaitingGraph, arguments
