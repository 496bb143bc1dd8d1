"""Runs a forward and a backward function as one node of autograd's graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx

from .batched_backward import is_batched
from .partitioner import Partition


class TwoParts:
    """A function of a captured graph's inputs. forward, backward: what was compiled of the two
    parts; the second with the mark `_boxed_call` where it takes a list that it empties."""

    def __init__(
        self, divided: Partition, forward: Callable[..., Any], backward: Callable[..., Any]
    ) -> None:
        self.forward, self.backward = forward, backward
        self.results, self.kept_inputs, self.fixed = (
            divided.results,
            divided.kept_inputs,
            divided.fixed,
        )
        self.tangents = divided.tangents
        placeholders = divided.backward.graph.find_nodes(op="placeholder")
        self.expected = [
            GradientLayout(node.meta["val"])
            for node in placeholders[len(placeholders) - len(divided.tangents) :]
        ]
        self.boxed = getattr(backward, "_boxed_call", False)
        inputs = len(divided.forward.graph.find_nodes(op="placeholder"))
        self.slots = [
            divided.wanted.index(position) if position in divided.wanted else None
            for position in range(inputs)
        ]

    def __call__(self, *args: Any) -> Any:
        return CompiledFunction.apply(self, *args)


class GradientLayout:
    """How a gradient lies in memory."""

    def __init__(self, like: torch.Tensor) -> None:
        self.shape, self.strides, self.dtype, self.device = (
            like.shape,
            like.stride(),
            like.dtype,
            like.device,
        )

    def fit_to_input(self, gradient: torch.Tensor | None) -> torch.Tensor:
        """The gradient, laid like this; zeros where none came."""
        if (
            gradient is not None
            and gradient.stride() == self.strides
            and type(gradient) is torch.Tensor
        ):
            return gradient
        if gradient is not None and is_batched(
            gradient
        ):  # into memory that is not its vmap's nothing can be copied
            return gradient.contiguous()
        made = torch.empty_strided(self.shape, self.strides, dtype=self.dtype, device=self.device)
        return made.zero_() if gradient is None else made.copy_(gradient)


class CompiledFunction(torch.autograd.Function):
    """Its node is named as those of aot_autograd, by which it is found."""

    @staticmethod
    def forward(ctx: Any, parts: TwoParts, *args: Any) -> Any:
        with torch._C._DisableAutocast():
            made = parts.forward(*args)
        made = [without_base(item) for item in made]
        outputs, kept = made[: parts.results], made[parts.results :]
        ctx.parts = parts
        ctx.save_for_backward(*(args[position] for position in parts.kept_inputs), *kept)
        ctx.mark_non_differentiable(*(outputs[position] for position in parts.fixed))
        ctx.set_materialize_grads(False)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> Any:
        parts: TwoParts = ctx.parts
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
    """A tensor that is no window on another one, to autograd."""
    return item.detach() if isinstance(item, torch.Tensor) and item._is_view() else item
