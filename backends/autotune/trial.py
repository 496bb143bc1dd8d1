"""Inputs to try a graph with, and one run of a candidate on them that leaves nothing behind.

Each tensor that the graph writes into is a copy of the caller's, one a storage, so that what is shared stays shared; the
others share the caller's memory but none of its hooks. `copies` gives copies of all, for a first run of code not yet trusted.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx

from ..eager_gradients import wants_gradients

SEED = 20221130
GRADIENT = "gradient"  # how the names of gradients begin


@dataclass
class Ran:
    """What a run made: the graph's results, gradients of its inputs in training, and its inputs afterwards."""

    results: list[Any]
    gradients: list[torch.Tensor | None]
    inputs: list[Any]

    def tensors(self) -> list[tuple[str, Any]]:
        """All of it, with names for messages."""
        return [
            *((f"result {number}", item) for number, item in enumerate(self.results)),
            *((f"{GRADIENT} {number}", item) for number, item in enumerate(self.gradients)),
            *((f"input {number} afterwards", item) for number, item in enumerate(self.inputs)),
        ]


class Trial:
    """The inputs of one graph for a while. `forget` drops them."""

    def __init__(self, gm: torch.fx.GraphModule | None, args: Sequence[Any]) -> None:
        """gm: None for what is no captured graph; then every input may be written to, and gradients flow where inputs want them."""
        if gm is None:
            self.training = torch.is_grad_enabled() and any(getattr(one, "requires_grad", False) for one in args)
            self.written = set(range(len(args)))
        else:
            placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
            self.training = torch.is_grad_enabled() and wants_gradients(gm)
            self.written = {index for index, node in enumerate(placeholders) if node.meta.get("mutated")}
        self.originals = list(args)
        self.tangents: list[torch.Tensor] | None = None

    def bytes(self) -> int:
        """How much memory `copies` takes."""
        return sum(high - low for _, low, high in extents(self.originals).values())

    def copies(self) -> list[Any]:
        """Copies of all inputs."""
        return copied(self.originals, set(range(len(self.originals))))

    def inputs(self) -> list[Any]:
        """The inputs, those that the graph writes into as copies."""
        return copied(self.originals, self.written)

    def run(self, call: Callable[..., Any], inputs: Sequence[Any]) -> Ran:
        """Runs a candidate, in training its backward pass too."""
        results = list(call(*inputs))
        if not self.training:
            return Ran(results, [], list(inputs))
        ends = [item for item in results if isinstance(item, torch.Tensor) and item.requires_grad]
        starts = [item for item in inputs if isinstance(item, torch.Tensor) and item.requires_grad and item.is_leaf]
        if not ends or not starts:
            return Ran(results, [], list(inputs))
        if self.tangents is None:
            self.tangents = [made_up(item) for item in ends]
        tangents = [tangent.to(item.dtype) for tangent, item in zip(self.tangents, ends, strict=True)]
        gradients = torch.autograd.grad(ends, starts, tangents, allow_unused=True)
        return Ran([detached(item) for item in results], list(gradients), list(inputs))

    def in_float64(self) -> list[Any]:
        """Copies of all inputs, floating ones in double precision."""

        def widened(item: Any) -> Any:
            if not isinstance(item, torch.Tensor) or not (item.is_floating_point() or item.is_complex()):
                return item
            return item.detach().to(torch.complex128 if item.is_complex() else torch.float64).requires_grad_(item.requires_grad)

        return list(map(widened, self.copies()))

    def forget(self) -> None:
        self.originals.clear()
        self.tangents = None


def detached(item: Any) -> Any:
    return item.detach() if isinstance(item, torch.Tensor) else item


def made_up(like: torch.Tensor) -> torch.Tensor:
    """A gradient for a result: numbers of no meaning, the same each time."""
    source = torch.Generator(device=like.device).manual_seed(SEED)
    return torch.randn(like.shape, dtype=like.dtype, device=like.device, generator=source)


def extents(tensors: Sequence[Any]) -> dict[int, tuple[torch.Tensor, int, int]]:
    """By storage: one of the tensors in it, and the bytes from and to which tensors reach."""
    found: dict[int, tuple[torch.Tensor, int, int]] = {}
    for tensor in tensors:
        if not isinstance(tensor, torch.Tensor):
            continue
        low = int(tensor.storage_offset()) * tensor.element_size()
        reach = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)) + 1
        high = low + (reach * tensor.element_size() if tensor.numel() else 0)
        key = tensor.untyped_storage().data_ptr()
        _, other_low, other_high = found.get(key, (tensor, low, high))
        found[key] = tensor, min(low, other_low), max(high, other_high)
    return found


def copied(tensors: Sequence[Any], wanted: set[int]) -> list[Any]:
    """The tensors as leaves without hooks; those at `wanted`, and all that share a storage with one, in memory of their own."""
    shared = {tensors[index].untyped_storage().data_ptr() for index in wanted if isinstance(tensors[index], torch.Tensor)}
    fresh: dict[int, tuple[torch.UntypedStorage, int]] = {}
    with torch.no_grad():
        for key, (tensor, low, high) in extents(tensors).items():
            if key in shared:
                base = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage(), low, (high - low,), (1,))
                fresh[key] = base.clone().untyped_storage(), low
        return [again(tensor, fresh) if isinstance(tensor, torch.Tensor) else tensor for tensor in tensors]


def again(tensor: torch.Tensor, fresh: dict[int, tuple[torch.UntypedStorage, int]]) -> torch.Tensor:
    """A tensor over its own memory, or over the copy of it."""
    key = tensor.untyped_storage().data_ptr()
    if key not in fresh:
        made = tensor.detach()
    elif tensor.is_conj() or tensor.is_neg():
        made = tensor.detach().clone()
    else:
        storage, low = fresh[key]
        offset = (tensor.storage_offset() * tensor.element_size() - low) // tensor.element_size()
        made = torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(storage, offset, tensor.shape, tensor.stride())
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(made, requires_grad=tensor.requires_grad)
    return made.requires_grad_(tensor.requires_grad)


@contextmanager
def random_state_kept(devices: Sequence[torch.device]) -> Iterator[None]:
    """Whatever runs inside leaves torch's generators as they were."""
    cpu = torch.get_rng_state()
    cuda = [(device, torch.cuda.get_rng_state(device)) for device in devices if device.type == "cuda"]
    try:
        yield
    finally:
        torch.set_rng_state(cpu)
        for device, state in cuda:
            torch.cuda.set_rng_state(state, device)
