"""Fused kernels one by one, and how far each is from the memory's speed.

A case reads and writes so much that launching does not show. The bytes of a case are what it cannot do without: its inputs once and its
results once. The limit is a copy of a large tensor in the same run, so a share may pass 100 %: a copy is not the fastest way to read.
"""
from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from framejit.backends.autotune.measure import Stopwatch
from torch import Tensor

from . import systems

SYSTEMS = ("eager", "torch-inductor", "framejit-native")
ELEMENTS = {"cuda": 1 << 26, "cpu": 1 << 22}  # of the main input
ROUNDS = 9
SECONDS = 0.02  # a round of one system


@dataclass(frozen=True)
class Case:
    """A function, and the shapes of its inputs for so many elements. `classes`: with, as the last input, one of so many a row.
    `places`: with so many inputs more, each of which says for every row of the second input which row of the first one it means."""

    function: Callable[..., Any]
    shapes: Callable[[int], tuple[tuple[int, ...], ...]]
    dtype: torch.dtype = torch.float32
    classes: int = 0
    places: int = 0

    def inputs(self, elements: int, device: str) -> list[Tensor]:
        inputs = [torch.randn(shape, device=device).to(self.dtype) for shape in self.shapes(elements)]
        if self.classes:
            inputs.append(torch.randint(self.classes, inputs[0].shape[:1], device=device))
        return inputs + [torch.randint(len(inputs[0]), inputs[1].shape[:1], device=device) for _ in range(self.places)]


def rows(width: int, *others: tuple[int, ...]) -> Callable[[int], tuple[tuple[int, ...], ...]]:
    """One input of rows so wide, and others as they are."""
    return lambda elements: ((elements // width, width), *others)


def pairs(width: int) -> Callable[[int], tuple[tuple[int, ...], ...]]:
    return lambda elements: ((elements // width, width),) * 2


def square(elements: int) -> tuple[tuple[int, ...], ...]:
    side = int(elements**0.5)
    return ((side, side),) * 2


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], weight, bias)


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * weight


def normalized_image(x: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    return torch.relu(F.batch_norm(x, mean, variance.abs()))


def normalized_batch(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return torch.relu(F.batch_norm(x, None, None, weight, bias, training=True))


def edges(*width: int) -> Callable[[int], tuple[tuple[int, ...], ...]]:
    """Nodes of 128 numbers, and ten times as many edges of so many."""
    return lambda elements: ((elements // 1280, 128), (elements // 128, *width))


def scatter(x: Tensor, source: Tensor, to: Tensor) -> Tensor:
    return x.index_add(0, to, source * 2)


def graph_convolution(x: Tensor, weight: Tensor, to: Tensor, come_from: Tensor) -> Tensor:
    return torch.zeros_like(x).index_add(0, to, x[come_from] * weight[:, None])


def bias_gradient(gradient: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
    """Backward of relu(x + bias)."""
    gradient = torch.ops.aten.threshold_backward(gradient, out, 0)
    return gradient, gradient.sum(0)


def masked_softmax(scores: Tensor) -> Tensor:
    """Attention that looks back only."""
    side = scores.shape[-1]
    later = torch.ones(side, side, dtype=torch.bool, device=scores.device).triu(1)
    return scores.masked_fill(later, -torch.inf).softmax(-1)


def pairwise_sums(matrix: Tensor, vector: Tensor) -> Tensor:
    """The gradient of vector[:, None] * vector."""
    return (matrix * vector).sum(1) + (matrix * vector[:, None]).sum(0)


def position_codes(points: Tensor, direction: Tensor) -> Tensor:
    """Rays through a volume: points of three coordinates."""
    return torch.sin((direction[:, None] * points[..., None]) * 8)


CASES: dict[str, Case] = {
    "pointwise": Case(lambda x, y: torch.tanh(x) * torch.sigmoid(y) + x * 0.5, pairs(1024)),
    "bias and gelu, bf16": Case(lambda x, bias: F.gelu(x + bias), rows(4096, (4096,)), torch.bfloat16),
    "add and layer norm, 768": Case(lambda x, y, w, b: layer_norm(x + y, w, b), lambda n: ((n // 768, 768),) * 2 + ((768,),) * 2),
    "layer norm, 4096": Case(layer_norm, rows(4096, (4096,), (4096,))),
    "rms norm, bf16, 4096": Case(rms_norm, rows(4096, (4096,)), torch.bfloat16),
    "softmax, 1024": Case(lambda x: torch.softmax(x * 0.125, -1), rows(1024)),
    "softmax, 16384": Case(lambda x: torch.softmax(x * 0.125, -1), rows(16384)),
    "softmax, 65536": Case(lambda x: torch.softmax(x * 0.125, -1), rows(65536)),
    "masked softmax, 1024": Case(masked_softmax, lambda n: ((n // 1024**2, 1024, 1024),)),
    "cross entropy, 32000": Case(F.cross_entropy, rows(32000), classes=32000),
    "sums of rows": Case(lambda x: (x * x).sum(-1), rows(2048)),
    "sums of columns": Case(lambda x: (x * x).sum(0), rows(2048)),
    "sum of all": Case(lambda x: (x * x).sum(), rows(2048)),
    "mean and variance": Case(lambda x: torch.var_mean(x, -1), rows(2048)),
    "sums of rows and of columns": Case(pairwise_sums, lambda n: (square(n)[0], square(n)[0][:1])),
    "transposed and added": Case(lambda x, y: x.t() + y, square),
    "flipped and added": Case(lambda x, y: x.flip(-1) + y, pairs(1024)),
    "rolled and scaled": Case(lambda x: x.roll(3, -1) * 2, rows(1024)),
    "enlarged, 56 x 56": Case(
        lambda x: F.interpolate(x * 2, scale_factor=2), lambda n: ((n // (256 * 56 * 56), 64, 56, 56),)
    ),
    "two side by side": Case(lambda x, y: torch.cat([x.exp(), y * 2], -1), pairs(1024)),
    "scatter": Case(scatter, edges(128), places=1),
    "gather, product, scatter": Case(graph_convolution, edges(), places=2),
    "cumulative sums, 1024": Case(lambda x: torch.cumsum(x * 2, -1), rows(1024)),
    "gradient of a bias, 64": Case(bias_gradient, pairs(64)),
    "gradient of a bias, 1024": Case(bias_gradient, pairs(1024)),
    "three coordinates": Case(position_codes, lambda n: ((n // 192, 64), (n // 192, 3))),
    "batch norm in training and relu": Case(
        normalized_batch, lambda n: ((n // (64 * 56 * 56), 64, 56, 56), (64,), (64,))
    ),
    "batch norm and relu": Case(normalized_image, lambda n: ((n // (64 * 56 * 56), 64, 56, 56), (64,), (64,))),
}


def moved_bytes(inputs: list[Tensor], results: Any) -> int:
    results = [results] if isinstance(results, Tensor) else list(results)
    return sum(one.numel() * one.element_size() for one in [*inputs, *results])


def microseconds(call: Callable[[], Any], count: int, wait: Callable[[], Any]) -> float:
    return Stopwatch(wait).sample(call, count) * 1e6


@torch.no_grad()
def measure_case(name: str, device: str) -> dict[str, float]:
    """Microseconds of a call by system, the median of rounds in which they take turns; the bytes moved, and microseconds of a
    copy of as many ("copy"). Runs in a process of its own."""
    case, wait = CASES[name], torch.cuda.synchronize if device == "cuda" else int
    inputs = case.inputs(ELEMENTS[device], device)
    moved = moved_bytes(inputs, case.function(*inputs))
    source = torch.empty(moved // 2, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    calls: dict[str, Callable[[], Any]] = {"copy": lambda: target.copy_(source)}
    for system in SYSTEMS:
        made = systems.make(system, case.function)[0]
        calls[system] = lambda made=made: made(*inputs)  # type: ignore[misc] # bound now
        torch.testing.assert_close(calls[system](), case.function(*inputs), rtol=2e-2, atol=2e-2)
    counts = {system: max(2, int(SECONDS * 1e6 / microseconds(call, 5, wait))) for system, call in calls.items()}
    times: dict[str, list[float]] = {system: [] for system in calls}
    for _ in range(ROUNDS):
        for system, call in calls.items():
            times[system].append(microseconds(call, counts[system], wait))
    return {"bytes": float(moved)} | {system: statistics.median(each) for system, each in times.items()}
