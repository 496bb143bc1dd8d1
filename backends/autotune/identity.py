"""The cache key of a tuning decision: graph, inputs, device, versions, and torch's global
settings."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import platform
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.fx

from ...records import record
from ..graph.product_precision import rounding_settings


@record
class Identity:
    """The parts of a key, and the key."""

    graph: str
    shapes: str
    device: str
    versions: str
    mode: str

    @property
    def key(self) -> str:
        return short_hash(
            "\n".join((self.graph, self.shapes, self.device, self.versions, self.mode))
        )

    def at_scale(self, scale: int) -> Identity:
        """That of a graph with dynamic sizes, for sizes of one class."""
        return replace(self, shapes=f"{self.shapes}; scale {scale}")


def short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def identify_graph(
    gm: torch.fx.GraphModule,
    inputs: Sequence[Any],
    mode: str,
    candidates: Sequence[str],
    device: torch.device,
    scale: int | None = None,
) -> Identity:
    """The identity of a graph and its inputs. scale: for a graph with dynamic sizes, the class of
    sizes; then `inputs` are those of its compile, with symbols."""
    shapes = "; ".join(map(shape_class, inputs))
    found = Identity(
        short_hash(text_of(gm)),
        shapes,
        device_name(device),
        versions(),
        f"{mode}: {', '.join(candidates)}",
    )
    return found if scale is None else found.at_scale(scale)


def text_of(gm: torch.fx.GraphModule) -> str:
    """The text of a graph, independent of the names of its nodes."""
    numbers = {node: number for number, node in enumerate(gm.graph.nodes)}

    def number(node: torch.fx.Node) -> Any:
        return Number(numbers[node])

    def argument(item: Any) -> Any:
        return torch.fx.node.map_arg(item, number)

    return "\n".join(
        f"{node.op} {target_of(node)} {argument(node.args)} {argument(node.kwargs)}"
        for node in gm.graph.nodes
    )


class Number:
    """A node, in an argument."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __repr__(self) -> str:
        return f"%{self.number}"


def target_of(node: torch.fx.Node) -> str:
    if node.op == "placeholder":
        return ""
    if isinstance(node.target, str):
        return node.target
    name = getattr(node.target, "__qualname__", None) or getattr(
        node.target, "__name__", node.target
    )
    return f"{getattr(node.target, '__module__', '')}.{name}"


def shape_class(item: Any) -> str:
    """The properties of an input that matter for speed. Dynamic sizes are written as "?"."""
    if not isinstance(item, torch.Tensor):
        return type(item).__name__
    sizes = "x".join(str(size) if isinstance(size, int) else "?" for size in item.shape)
    kind = "p" if isinstance(item, torch.nn.Parameter) else "g" if item.requires_grad else ""
    fixed = all(isinstance(number, int) for number in (*item.shape, *item.stride()))
    dense = "" if not fixed or item.is_contiguous() else f" strides {tuple(item.stride())}"
    return f"{str(item.dtype).removeprefix('torch.')}[{sizes}]{kind}{dense}"


def scale(elements: int) -> int:
    """The class of a number of elements: within a class, one backend is taken to be the fastest.
    Classes are powers of four."""
    return int(elements).bit_length() // 2


@functools.cache
def processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            lines = [
                line.partition(":")[2].strip() for line in file if line.startswith("model name")
            ]
    except OSError:
        lines = []
    return lines[0] if lines else platform.processor() or platform.machine()


@functools.cache
def driver() -> str:
    try:
        with open("/proc/driver/nvidia/version") as file:
            numbers = [
                word for word in file.readline().split() if word[:1].isdigit() and "." in word
            ]
    except OSError:
        numbers = []
    return f"{numbers[0] if numbers else 'unknown'}, CUDA {torch.version.cuda}"


def device_name(device: torch.device) -> str:
    """The device and its driver."""
    if device.type == "cuda":
        return f"{torch.cuda.get_device_name(device)}, driver {driver()}"
    return (
        f"{processor()}, {torch.get_num_threads()} threads" if device.type == "cpu" else device.type
    )


def versions() -> str:
    """Versions of the software that generates and runs code, and torch's settings that affect
    speed."""
    rounded = " ".join(".".join((*setting, to)) for setting, to in rounding_settings().items())
    switches = f"{rounded} {torch.are_deterministic_algorithms_enabled()} {torch.is_grad_enabled()}"
    return f"torch {torch.__version__}, framejit {framejit_version()}, {switches}"


@functools.cache
def framejit_version() -> str:
    try:
        return importlib.metadata.version("framejit")
    except importlib.metadata.PackageNotFoundError:
        return "from a checkout"
