"""Runs a forward and a backward function as one node of autograd's graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx

from .batched_backward import is_batched
from .partitioner import Partition


class ForwardAndBackward:
    """A function of a captured graph's inputs that calls the compiled forward and backward graphs.
    A backward function with the mark `_boxed_call` takes a list of its arguments, and empties
    it."""

    def __init__(
        self, partition: Partition, forward: Callable[..., Any], backward: Callable[..., Any]
    ) -> None:
        self.forward, self.backward = forward, backward
        self.results = partition.results
        self.saved_inputs = partition.saved_inputs
        self.without_gradient = partition.without_gradient
        self.tangents = partition.tangents
        placeholders = partition.backward.graph.find_nodes(op="placeholder")
        self.expected = [
            GradientLayout(node.meta["val"])
            for node in placeholders[len(placeholders) - len(partition.tangents) :]
        ]
        self.boxed = getattr(backward, "_boxed_call", False)
        inputs = len(partition.forward.graph.find_nodes(op="placeholder"))
        self.slots = [
            partition.wanted.index(position) if position in partition.wanted else None
            for position in range(inputs)
        ]

    def __call__(self, *args: Any) -> Any:
        return CompiledFunction.apply(self, *args)


class GradientLayout:
    """The memory layout that a compiled backward graph expects of a gradient."""

    def __init__(self, like: torch.Tensor) -> None:
        self.shape, self.strides, self.dtype, self.device = (
            like.shape,
            like.stride(),
            like.dtype,
            like.device,
        )

    def fit_to_input(self, gradient: torch.Tensor | None) -> torch.Tensor:
        """The gradient with this layout; zeros for None."""
        if (
            gradient is not None
            and gradient.stride() == self.strides
            and type(gradient) is torch.Tensor
        ):
            return gradient
        # a tensor without vmap's batch dimension cannot be written from one with it
        if gradient is not None and is_batched(gradient):
            return gradient.contiguous()
        made = torch.empty_strided(self.shape, self.strides, dtype=self.dtype, device=self.device)
        return made.zero_() if gradient is None else made.copy_(gradient)


class CompiledFunction(torch.autograd.Function):
    """Its autograd node has the name of aot_autograd's nodes, by which it is found."""

    @staticmethod
    def forward(ctx: Any, parts: ForwardAndBackward, *args: Any) -> Any:
        with torch._C._DisableAutocast():
            made = parts.forward(*args)
        made = [without_base(item) for item in made]
        outputs, saved = made[: parts.results], made[parts.results :]
        ctx.parts = parts
        ctx.save_for_backward(*(args[position] for position in parts.saved_inputs), *saved)
        ctx.mark_non_differentiable(*(outputs[position] for position in parts.without_gradient))
        ctx.set_materialize_grads(False)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> Any:
        parts: ForwardAndBackward = ctx.parts
        given: list[Any] = list(ctx.saved_tensors)
        if not torch._C._autograd._get_current_graph_task_keep_graph():
            ctx.maybe_clear_saved_tensors()
        with torch.no_grad(), torch._C._DisableAutocast():
            given += (
                laid.fit_to_input(gradients[position])
                for laid, position in zip(parts.expected, parts.tangents, strict=True)
            )
            made: Sequence[Any] = parts.backward(given) if parts.boxed else parts.backward(*given)
        return None, *(None if slot is None else made[slot] for slot in parts.slots)


def without_base(item: Any) -> Any:
    """The tensor, detached from its base if it is a view to autograd."""
    return item.detach() if isinstance(item, torch.Tensor) and item._is_view() else item
