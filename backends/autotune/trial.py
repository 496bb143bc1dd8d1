"""Inputs for trying a candidate, and a run of it that leaves no traces.

Tensors that the graph writes are copied, one copy for each stretch of memory, so that shared memory
stays shared. The others use the caller's memory, without its hooks. `copies` copies all of them,
for the first run of untrusted code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.fx
from torch.utils._pytree import tree_leaves

from ...overlap import may_repeat
from ..graph.fake_values import fake_of
from ..graph.gradient_history import wants_gradients
from ..graph.memory_copies import copy_tensors, has_storage, is_laid_out, memory_between, stretches

SEED = 20221130
GRADIENT, INPUT = "gradient", "input"  # prefixes of the names of gradients and inputs
# By how many roundings of its dtype a number is nudged, tried in this order. Few may move no
# element of a deep network's last layers across a threshold such as a ReLU's.
NUDGES = (4, 64)
# Relative. More than the fewest roundings are reduced to this, so 16-bit numbers are never nudged
# by more than the fewest.
LARGEST_NUDGE = 1e-5


@dataclass
class RunResult:
    """The outcome of a run: the graph's results, gradients of its inputs in training, and its
    inputs afterwards. between: the copied memory outside of the inputs."""

    results: list[Any]
    gradients: list[torch.Tensor | None]
    inputs: list[Any]
    between: list[torch.Tensor] = field(default_factory=list)

    def without_gradients(self) -> RunResult:
        results, inputs = list(map(detach, self.results)), list(map(detach, self.inputs))
        return RunResult(results, [], inputs, self.between)

    def tensors(self) -> list[tuple[str, Any]]:
        """The tensors of the run, with names for messages."""
        return [
            *((f"result {number}", item) for number, item in enumerate(self.results)),
            *((f"{GRADIENT} {number}", item) for number, item in enumerate(self.gradients)),
            *((f"{INPUT} {number} afterwards", item) for number, item in enumerate(self.inputs)),
            *(("memory between inputs", item) for item in self.between),
        ]


def coarsest_dtype(gm: torch.fx.GraphModule) -> torch.dtype | None:
    """The floating dtype with the fewest bits that a captured graph computes in; None without
    one."""
    fakes = (fake_of(node) for node in gm.graph.nodes if node.op != "placeholder")
    tensors = (item for fake in fakes for item in tree_leaves(fake))
    found = {item.dtype.to_real() for item in tensors if isinstance(item, torch.Tensor)}
    return coarsest_of(found)


def coarsest_of(dtypes: Iterable[torch.dtype]) -> torch.dtype | None:
    floating = (dtype for dtype in dtypes if dtype.is_floating_point)
    return max(floating, key=lambda dtype: torch.finfo(dtype).eps, default=None)


class Trial:
    """The inputs of one graph, until `forget` drops them."""

    def __init__(self, gm: torch.fx.GraphModule | None, args: Sequence[Any]) -> None:
        """gm: None for a callable that is not a captured graph; then any input may be written, and
        gradients flow where inputs require them."""
        if gm is None:
            self.training = torch.is_grad_enabled() and any(
                getattr(one, "requires_grad", False) for one in args
            )
            self.written = set(range(len(args)))
        else:
            placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
            self.training = torch.is_grad_enabled() and wants_gradients(gm)
            self.written = {
                index for index, node in enumerate(placeholders) if node.meta.get("mutated")
            }
        self.originals = list(args)
        self.tangents: list[torch.Tensor] | None = None

    def bytes(self) -> int:
        """The memory that `copies` takes."""
        return sum(
            one.high - one.low
            for one in {id(one): one for one in stretches(self.originals).values()}.values()
        )

    def copies(self) -> list[Any]:
        """Copies of all inputs."""
        return copy_tensors(self.originals, set(range(len(self.originals))))

    def inputs(self) -> list[Any]:
        """The inputs; those that the graph writes are copies."""
        return copy_tensors(self.originals, self.written)

    def counters(self) -> list[int]:
        """Positions of written integers and single numbers. The graph may use such a value as an
        index and increase it, as a cache of fixed size does. If each trial increased it further,
        it would get out of bounds, which on a GPU ends the process."""
        return [
            index
            for index in sorted(self.written)
            if isinstance(item := self.originals[index], torch.Tensor)
            and (item.numel() == 1 or not (item.is_floating_point() or item.is_complex()))
        ]

    def reset_counters(self, inputs: Sequence[Any]) -> None:
        """Sets the counters among `inputs` to the program's values."""
        for index in self.counters():
            inputs[index].copy_(self.originals[index])

    def run(self, call: Callable[..., Any], inputs: Sequence[Any]) -> RunResult:
        """Runs a candidate, in training with its backward pass."""
        results = list(call(*inputs))
        if not self.training:
            return RunResult(results, [], list(inputs))
        ends = [item for item in results if isinstance(item, torch.Tensor) and item.requires_grad]
        starts = [
            item
            for item in inputs
            if isinstance(item, torch.Tensor) and item.requires_grad and item.is_leaf
        ]
        if not ends or not starts:
            return RunResult(results, [], list(inputs))
        if self.tangents is None:
            self.tangents = [random_gradient(item) for item in ends]
        tangents = [
            tangent.to(item.dtype) for tangent, item in zip(self.tangents, ends, strict=True)
        ]
        gradients = torch.autograd.grad(ends, starts, tangents, allow_unused=True)
        return RunResult([detach(item) for item in results], list(gradients), list(inputs))

    def first_run(self, call: Callable[..., Any], inputs: Sequence[Any]) -> RunResult:
        """Runs like `run`, and also returns the copied memory that belongs to no input."""
        ran = self.run(call, inputs)
        mine = {item.untyped_storage()._cdata for item in self.originals if has_storage(item)}
        ran.between = memory_between(
            [
                item
                for item in inputs
                if is_laid_out(item) and item.untyped_storage()._cdata not in mine
            ]
        )
        return ran

    def memory_between_inputs(self) -> list[torch.Tensor]:
        """The program's own memory between the inputs, for comparison with first_run's copies."""
        return memory_between(list(filter(is_laid_out, self.copies())))

    def in_float64(self) -> list[Any]:
        """Copies of all inputs, floating ones in double precision."""

        def to_double(item: Any) -> Any:
            if not isinstance(item, torch.Tensor) or not (
                item.is_floating_point() or item.is_complex()
            ):
                return item
            return (
                item.detach()
                .to(torch.complex128 if item.is_complex() else torch.float64)
                .requires_grad_(item.requires_grad)
            )

        return list(map(to_double, self.copies()))

    def nudged_inputs(self, roundings: int) -> list[Any]:
        """Copies of all inputs, floating numbers in them so many roundings larger or smaller."""
        copies = self.copies()
        for item in copies:
            if is_laid_out(item) and item.dtype in NUDGED:
                nudge(item.detach(), roundings)
        return copies

    def forget(self) -> None:
        self.originals.clear()
        self.tangents = None


NUDGED = (torch.float16, torch.bfloat16, torch.float32)


def nudge(tensor: torch.Tensor, roundings: int) -> None:
    """Changes each number by so many roundings of its dtype, up or down, at most by LARGEST_NUDGE.
    Does nothing where elements share memory."""
    if may_repeat(tensor.shape, tensor.stride()):
        return
    source = torch.Generator(device=tensor.device).manual_seed(SEED)
    signs = torch.randn(tensor.shape, device=tensor.device, generator=source).sign()
    rounding = torch.finfo(tensor.dtype).eps
    step = max(NUDGES[0] * rounding, min(roundings * rounding, LARGEST_NUDGE))
    tensor.mul_(1 + step * signs.to(tensor.dtype))


def detach(item: Any) -> Any:
    return item.detach() if isinstance(item, torch.Tensor) else item


def random_gradient(like: torch.Tensor) -> torch.Tensor:
    """A gradient for a result: arbitrary numbers, the same each time."""
    source = torch.Generator(device=like.device).manual_seed(SEED)
    return torch.randn(like.shape, dtype=like.dtype, device=like.device, generator=source)
