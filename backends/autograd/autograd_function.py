"""Runs a forward and a backward function as one node of autograd's graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import torch
import torch.fx

from .batched_backward import is_batched

if TYPE_CHECKING:  # it needs networkx, which a stored graph does not
    from .partitioner import Partition


# Takes the gradients of a node's inputs that are tensors, and those of its results, and returns the
# former.
Correct = Callable[[Sequence[torch.Tensor | None], Sequence[torch.Tensor | None]], Sequence[Any]]


class TwoPasses(Protocol):
    """The passes of one node: `ctx` carries values from the forward to the backward pass."""

    def run_forward(self, ctx: Any, args: Sequence[Any]) -> tuple[Any, ...]: ...

    def run_backward(self, ctx: Any, gradients: Sequence[torch.Tensor | None]) -> Sequence[Any]:
        """The gradients of all arguments."""


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
            GradientLayout.of(node.meta["val"])
            for node in placeholders[len(placeholders) - len(partition.tangents) :]
        ]
        self.layouts_vary = None in self.expected
        self.sizes = partition.sizes
        self.boxed = getattr(backward, "_boxed_call", False)
        inputs = partition.forward.graph.find_nodes(op="placeholder")
        self.slots = [
            partition.wanted.index(position) if position in partition.wanted else None
            for position in range(len(inputs))
        ]
        self.tensors = [
            position
            for position, node in enumerate(inputs)
            if isinstance(node.meta["val"], torch.Tensor)
        ]
        # Inputs that get no gradient. Where none gets one, they still make the results require one.
        self.unreached = [
            position
            for position in self.tensors
            if partition.wanted and self.slots[position] is None
        ]

    def __call__(self, *args: Any) -> Any:
        given = list(args)
        for position in self.unreached:  # as in eager, no backward pass goes on from there
            if given[position].requires_grad:
                given[position] = given[position].detach()
        if torch._C._are_functorch_transforms_active():
            return CompiledFunction.apply(self, *given)
        return APPLY(self, *given)

    def run_forward(self, ctx: Any, args: Sequence[Any]) -> tuple[Any, ...]:
        made = list(map(without_base, without_autocast(self.forward, args)))
        end = len(made) - self.sizes
        outputs, ctx.sizes = made[: self.results], made[end:]
        ctx.expected = self.layouts_of(outputs) if self.layouts_vary else self.expected
        save_values(ctx, [*[args[at] for at in self.saved_inputs], *made[self.results : end]])
        if self.without_gradient:
            ctx.mark_non_differentiable(*[outputs[at] for at in self.without_gradient])
        ctx.set_materialize_grads(False)
        return tuple(outputs)

    def layouts_of(self, outputs: Sequence[torch.Tensor]) -> list[GradientLayout | None]:
        """The layouts of the gradients of these results."""
        return [
            laid or GradientLayout.of(outputs[position])
            for laid, position in zip(self.expected, self.tangents, strict=True)
        ]

    def run_backward(self, ctx: Any, gradients: Sequence[torch.Tensor | None]) -> Sequence[Any]:
        given = [*ctx.sizes, *saved_values(ctx)]
        if torch.is_grad_enabled():  # to differentiate the gradients
            with torch.no_grad():
                made = self.run_backward_graph(ctx, given, gradients)
        else:
            made = self.run_backward_graph(ctx, given, gradients)
        left = [None if slot is None else made[slot] for slot in self.slots]
        if ctx.correct is None:
            return left
        corrected = ctx.correct([left[position] for position in self.tensors], gradients)
        for position, gradient in zip(self.tensors, corrected, strict=True):
            left[position] = gradient
        return left

    def run_backward_graph(
        self, ctx: Any, given: list[Any], gradients: Sequence[torch.Tensor | None]
    ) -> Sequence[Any]:
        given += [
            laid.fit_to_input(gradients[position])
            for laid, position in zip(ctx.expected, self.tangents, strict=True)
        ]
        return without_autocast(self.backward, [given] if self.boxed else given)


class GradientLayout:
    """The memory layout that a compiled backward graph expects of a gradient."""

    @classmethod
    def of(cls, like: torch.Tensor) -> GradientLayout | None:
        """That of a tensor; None for a fake one whose layout varies: it is the result's."""
        numbers = (*like.shape, *like.stride())
        return None if any(isinstance(item, torch.SymInt) for item in numbers) else cls(like)

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
    """The autograd function of compiled graphs. Its autograd node has the name of aot_autograd's
    nodes, by which it is found."""

    @staticmethod
    def forward(ctx: Any, passes: TwoPasses, *args: Any) -> Any:
        ctx.passes, ctx.correct = passes, None
        return passes.run_forward(ctx, args)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> Any:
        passes: TwoPasses = ctx.passes
        return None, *passes.run_backward(ctx, gradients)


# CompiledFunction.apply in C. Function.apply itself, in Python, first looks for transforms of
# torch.func.
APPLY = super(torch.autograd.Function, CompiledFunction).apply


def correct_gradients(node: Any, correct: Correct) -> None:
    """Has a node of CompiledFunction pass its gradients through a function."""
    if isinstance(getattr(node, "passes", None), ForwardAndBackward):
        node.correct = correct  # a hook costs more
    else:
        node.register_hook(correct)


def without_autocast(run: Callable[..., Any], args: Sequence[Any]) -> Any:
    """Calls a function while autocast is off."""
    if not torch._C._is_any_autocast_enabled():
        return run(*args)
    with torch._C._DisableAutocast():
        return run(*args)


def save_values(ctx: Any, tensors: Sequence[torch.Tensor]) -> None:
    """Saves tensors for the backward pass."""
    ctx.saves = bool(tensors)
    ctx.save_for_backward(*tensors)


def saved_values(ctx: Any) -> list[Any]:
    """The tensors that the forward pass saved. They are freed unless another backward pass may
    come. A node that saved none may run again, as eager's may; to ask it for them would raise."""
    if not ctx.saves:
        return []
    saved = list(ctx.saved_tensors)
    if not torch._C._autograd._get_current_graph_task_keep_graph():
        ctx.maybe_clear_saved_tensors()
    return saved


def without_base(item: Any) -> Any:
    """The tensor, detached from its base if it is a view to autograd."""
    return item.detach() if isinstance(item, torch.Tensor) and item._is_view() else item
