"""Hooks on tensors in a captured graph: torch registers them on the real tensors, between the
subgraphs that the backend compiles."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

_numbers = itertools.count()


class RegisterHook:
    """The target of a node that calls tensor.register_hook(hook)."""

    def __init__(self, hook: Callable[..., Any]) -> None:
        self.__name__ = f"register_hook_{next(_numbers)}"
        self.hook = hook

    def __call__(self, tensor: torch.Tensor) -> None:
        if not isinstance(tensor, FakeTensor):
            tensor.register_hook(self.hook)


class RetainGrad:
    """The target of a node that calls tensor.retain_grad()."""

    __name__ = "keep_gradient"

    def __call__(self, tensor: torch.Tensor) -> None:
        if not isinstance(tensor, FakeTensor):
            tensor.retain_grad()
