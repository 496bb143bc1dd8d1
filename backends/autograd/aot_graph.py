"""Runs the two graphs that aot_autograd has traced, without aot_autograd: writes the inputs that
the program writes, and creates results that are views of an input or of another result.

Unlike the function that aot_autograd makes, this one can be stored, and imports no compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ...records import record
from .autograd_function import CompiledFunction, save_values, saved_values, without_base
from .batched_backward import is_batched


@record
class InputWrite:
    """A written input, whose new value the forward graph returns. hidden: it is a leaf; autograd
    must not see the write if the leaf requires a gradient."""

    position: int
    hidden: bool

    def apply(self, args: Sequence[Any], value: torch.Tensor) -> None:
        target = args[self.position]
        if self.hidden and target.requires_grad:
            target = target.detach()
        target.copy_(value)


@record
class ResultView:
    """A result that is a view. base: the position of the tensor that it is a view of, among the
    inputs or among the results. same: it is that input itself. steps: the views that lead from the
    base to it; None where only its sizes and strides are known."""

    base: int
    of_input: bool
    same: bool
    requires_grad: bool
    steps: tuple[Any, ...] | None

    def make(self, args: Sequence[Any], results: Sequence[Any], like: torch.Tensor) -> torch.Tensor:
        """The view, with the layout of `like`."""
        base: torch.Tensor = args[self.base] if self.of_input else tensor_of(results[self.base])
        if self.same:
            return base
        made = self.view(base, like)
        if base.requires_grad and not self.requires_grad:
            made = made.detach()
        elif self.requires_grad and not base.requires_grad:
            made.requires_grad_()
        return made if made.dtype == like.dtype else made.view(like.dtype)

    def view(self, base: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        """The view of `base` that has the layout of `like`: by the recorded steps, or by those of
        `like`, else with as_strided."""
        if self.steps is not None:
            made: torch.Tensor = torch._C._functionalization.apply_view_meta_sequence(
                base, list(self.steps)
            )
            return made
        if like._base is not None:
            same = layout_of(base) == layout_of(like._base)
            start = base if same else base.as_strided(*layout_of(like._base))
            made = like._view_func(start)  # type: ignore[attr-defined]
            if made is not None and made.shape == like.shape:
                return made
        if base.is_complex() and not like.is_complex():
            base = torch.view_as_real(base)
        elif like.is_complex() and not base.is_complex():
            base = torch.view_as_complex(base)
        return base.as_strided(*layout_of(like))


def layout_of(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.size(), tensor.stride(), tensor.storage_offset()


@record
class Tangent:
    """A gradient that the backward graph takes. position: that of its tensor among what the forward
    graph returns. size, stride: its layout; None where sizes vary, then it has a memory format."""

    position: int
    size: Sequence[int] | None
    stride: Sequence[int] | None
    memory_format: torch.memory_format | None

    def lay_out(self, gradient: Any) -> Any:
        """The gradient with this layout."""
        if not isinstance(gradient, torch.Tensor):
            return gradient
        if self.memory_format is not None:
            return gradient.contiguous(memory_format=self.memory_format)
        if gradient.shape == self.size and gradient.stride() == self.stride:
            return gradient
        if is_batched(gradient):
            return gradient.contiguous()
        assert self.size is not None and self.stride is not None
        return gradient.new_empty_strided(self.size, self.stride).copy_(gradient)


def separate(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor on the same memory that autograd does not see as a view. (`_unsafe_view`, which
    aot_autograd calls, gives a dimension of size 1 another stride.)"""
    with torch._C._AutoDispatchBelowADInplaceOrView():
        return torch.ops.aten.alias.default(tensor)


class HiddenFromAutograd:
    """A tensor that autograd does not see among the results of a function."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor


def tensor_of(item: Any) -> Any:
    return item.tensor if isinstance(item, HiddenFromAutograd) else item


@record
class AotPlan:
    """How to call the two graphs. The forward graph returns the new values of `writes`, `results`
    results, `bases` further tensors of which results are views, and what it saves: tensors, then
    `objects` objects of another kind, then `numbers` numbers. views: for each result, the view that
    it is, or None. separate: positions of results whose views of each other autograd must not see.
    without_gradient: positions of what has no gradient. tangents: the gradients that the backward
    graph takes after what was saved. detached: positions of inputs that get no gradient."""

    writes: tuple[InputWrite, ...]
    results: int
    bases: int
    objects: int
    numbers: int
    views: tuple[ResultView | None, ...]
    separate: tuple[int, ...]
    without_gradient: tuple[int, ...]
    tangents: tuple[Tangent, ...]
    detached: tuple[int, ...]

    @property
    def count_returned(self) -> int:
        """How many of the forward graph's results are not only saved."""
        return len(self.writes) + self.results + self.bases


class AotGraph:
    """A function of a captured graph's inputs. forward: the compiled forward graph. backward: the
    compiled backward graph; None where no gradients are taken."""

    def __init__(
        self, plan: AotPlan, forward: Callable[..., Any], backward: Callable[..., Any] | None
    ) -> None:
        self.plan, self.forward, self.backward = plan, forward, backward
        self.boxed = getattr(backward, "_boxed_call", False)
        self.has_views = any(view is not None for view in plan.views)

    def __call__(self, *args: Any) -> Any:
        made = self.without_autograd(args) if self.backward is None else self.run_as_one_node(args)
        plan = self.plan
        for write, value in zip(plan.writes, made, strict=False):
            write.apply(args, value)
        made = made[len(plan.writes) :]
        if not self.has_views:
            return made
        return [
            item if view is None else view.make(args, made, tensor_of(item))
            for view, item in zip(plan.views, made, strict=False)
        ]

    def without_autograd(self, args: Sequence[Any]) -> Sequence[Any]:
        with torch.no_grad(), torch._C._DisableAutocast():
            return list(self.forward(*args))

    def run_as_one_node(self, args: Sequence[Any]) -> Sequence[Any]:
        given = list(args)
        for position in self.plan.detached:
            given[position] = given[position].detach()
        before = torch._C._is_view_replay_enabled()
        torch._C._set_view_replay_enabled(True)
        try:
            with torch.enable_grad():
                made: Sequence[Any] = CompiledFunction.apply(self, *given)
        finally:
            torch._C._set_view_replay_enabled(before)
        return made

    def run_forward(self, ctx: Any, args: Sequence[Any]) -> tuple[Any, ...]:
        """Runs the forward graph; saves what the backward graph needs, and returns the rest."""
        plan = self.plan
        with torch._C._DisableAutocast():
            made, saved = self.call_forward(args)
        end = len(saved) - plan.numbers
        tensors = end - plan.objects
        ctx.numbers, ctx.objects = saved[end:], saved[tensors:end]
        save_values(ctx, [without_base(item) for item in saved[:tensors]])
        returned = [without_base(item) for item in made]
        for position in plan.separate:
            returned[position] = separate(returned[position])
        first = len(plan.writes)
        for position, view in enumerate(plan.views, first):
            if view is not None:
                returned[position] = HiddenFromAutograd(returned[position])
        items = (returned[position] for position in plan.without_gradient)
        ctx.mark_non_differentiable(*(item for item in items if isinstance(item, torch.Tensor)))
        ctx._materialize_non_diff_grads = False
        return tuple(returned)

    def run_backward(self, ctx: Any, gradients: Sequence[torch.Tensor | None]) -> Sequence[Any]:
        if torch._C._functorch.peek_interpreter_stack() is not None:
            raise RuntimeError(
                "torch.func cannot transform the backward pass of a compiled graph; compile the "
                "whole function instead"
            )
        given = [*ctx.numbers, *saved_values(ctx), *ctx.objects]
        with torch.no_grad(), torch._C._DisableAutocast():
            made = self.call_backward(given, gradients)
        if torch.is_grad_enabled():
            return OnceDifferentiable.apply(torch.empty(0, requires_grad=True), *made)
        return made

    def call_forward(self, args: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """What the forward graph returns, and what it saves."""
        made = list(self.forward(*args))
        return made[: self.plan.count_returned], made[self.plan.count_returned :]

    def call_backward(
        self, given: list[Any], gradients: Sequence[torch.Tensor | None]
    ) -> Sequence[Any]:
        """The gradients of the inputs. given: what the forward graph saved."""
        given += (tangent.lay_out(gradients[tangent.position]) for tangent in self.plan.tangents)
        return self.run_backward_graph(given)

    def run_backward_graph(self, given: list[Any]) -> Sequence[Any]:
        assert self.backward is not None
        made: Sequence[Any] = self.backward(given) if self.boxed else self.backward(*given)
        return made


class OnceDifferentiable(torch.autograd.Function):
    """Gradients that cannot be differentiated again, although eager's could be. anchor: a tensor
    that requires a gradient, as the gradients do in eager."""

    @staticmethod
    def forward(ctx: Any, anchor: torch.Tensor, *gradients: Any) -> Any:
        return tuple(item.view_as(item) if torch.is_tensor(item) else item for item in gradients)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise RuntimeError("the backward pass of this compiled graph cannot be differentiated")
