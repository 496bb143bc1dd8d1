"""Backward hooks of modules in a captured graph: torch's own code sets them up, between the
subgraphs that the backend compiles.

In: a graph in which the call of a module with such hooks is a HookEntry, the module's operators,
and a HookExit. Out: a function of the graph's inputs.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.modules._functions import BackwardHookFunction
from torch.utils.hooks import BackwardHook


class BackwardHooks:
    """What a module calls when gradients of its results and its inputs are known; each call of the
    module gets a BackwardHook of its own. References are weak: guards check that the hooks are the
    same. created_at: the place in the capture that sets them up."""

    def __init__(
        self,
        module: torch.nn.Module,
        hooks: Sequence[Any],
        pre_hooks: Sequence[Any],
        created_at: int,
    ) -> None:
        self.module, self.created_at = weakref.ref(module), created_at
        self.hooks = tuple(map(weakref.ref, hooks))
        self.pre_hooks = tuple(map(weakref.ref, pre_hooks))

    def for_call(self) -> BackwardHook:
        return BackwardHook(
            self.module(), [hook() for hook in self.hooks], [hook() for hook in self.pre_hooks]
        )


class TensorPositions:
    """Where tensors are among the arguments of a module, or its results. size: how many there are
    of these, `at`: which are tensors."""

    def __init__(self, size: int, at: Sequence[int]) -> None:
        self.size, self.at = size, tuple(at)

    def fill(self, tensors: Sequence[torch.Tensor]) -> tuple[Any, ...]:
        items: list[Any] = [None] * self.size
        for place, tensor in zip(self.at, tensors, strict=True):
            items[place] = tensor
        return tuple(items)

    def tensors(self, items: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(items[place] for place in self.at)


class HookEntry:
    """Maps the tensors among a module's arguments to those that the module gets instead. Their
    autograd node holds the BackwardHook."""

    __name__ = "backward_hooks_enter"

    def __init__(self, hooks: BackwardHooks, place: TensorPositions) -> None:
        self.hooks, self.place = hooks, place

    def __call__(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        if any(map(is_fake, tensors)):
            return BackwardHookFunction.apply(*tensors)
        hook = self.hooks.for_call()
        given = self.place.tensors(hook.setup_input_hook(self.place.fill(tensors)))
        first: Any = next(tensor.grad_fn for tensor in given if tensor.requires_grad)
        first.backward_hook = hook
        return given


class HookExit:
    """Maps the tensors among a module's results to those that its caller gets. `entered`: a tensor
    that requires a gradient, of those that HookEntry returned; without one, none of the `arguments`
    required one."""

    __name__ = "backward_hooks_leave"

    def __init__(self, hooks: BackwardHooks, place: TensorPositions, arguments: int) -> None:
        self.hooks, self.place, self.arguments = hooks, place, arguments

    def __call__(
        self, entered: torch.Tensor | None, *tensors: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        if any(map(is_fake, tensors)):
            return BackwardHookFunction.apply(*tensors)
        if entered is None:
            hook = self.hooks.for_call()
            hook.setup_input_hook((None,) * self.arguments)
        else:
            node: Any = entered.grad_fn
            hook = node.backward_hook
        return self.place.tensors(hook.setup_output_hook(self.place.fill(tensors)))


def is_fake(tensor: torch.Tensor) -> bool:
    """Whether a tensor belongs to a capture, which calls no hooks."""
    return isinstance(tensor, FakeTensor)


def is_set_up(node: torch.fx.Node) -> bool:
    """Whether a node sets backward hooks up."""
    return isinstance(node.target, HookEntry | HookExit)
