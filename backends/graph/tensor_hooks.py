"""Hooks on tensors in a captured graph: torch registers them on the real tensors, between the
subgraphs that the backend compiles."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils.hooks import RemovableHandle

_numbers = itertools.count()


class RegisterHook:
    """The target of a node that calls tensor.register_hook(hook)."""

    def __init__(self, hook: Callable[..., Any]) -> None:
        self.__name__ = f"register_hook_{next(_numbers)}"
        self.hook = hook
        self._thread = ThreadState()

    def __call__(self, tensor: torch.Tensor) -> None:
        if not isinstance(tensor, FakeTensor):
            self._thread.handle = tensor.register_hook(self.new_hook())

    def new_hook(self) -> Callable[..., Any]:
        """What is registered in one run of the graph."""
        return self.hook

    def handle(self) -> RemovableHandle | None:
        """What register_hook returned in this thread's last run of the graph."""
        return self._thread.handle


class RegisterLaterHook(RegisterHook):
    """The target of a node for a hook that is made after the graph has run, as it closes over what
    the frame has calculated. `bind` says which it is. A hook without `bind` does nothing: a graph
    that raises has registered no hook."""

    def __init__(self) -> None:
        super().__init__(LaterHook())

    def new_hook(self) -> Callable[..., Any]:
        hook = self._thread.unbound = LaterHook()
        return hook

    def bind(self, hook: Callable[..., Any]) -> None:
        """Gives the hook to what this thread's last run of the graph has registered; runs before it
        have failed."""
        unbound = self._thread.unbound
        assert unbound is not None
        unbound.hook = hook
        self._thread.unbound = None


class LaterHook:
    """A hook of a tensor that calls another one, if there is one."""

    __slots__ = ("hook",)

    def __init__(self) -> None:
        self.hook: Callable[..., Any] | None = None

    def __call__(self, grad: torch.Tensor) -> Any:
        return None if self.hook is None else self.hook(grad)


class ThreadState(threading.local):
    """What the last run of the graph in a thread has registered."""

    def __init__(self) -> None:
        self.handle: RemovableHandle | None = None
        self.unbound: LaterHook | None = None


class RetainGrad:
    """The target of a node that calls tensor.retain_grad()."""

    __name__ = "keep_gradient"

    def __call__(self, tensor: torch.Tensor) -> None:
        if not isinstance(tensor, FakeTensor):
            tensor.retain_grad()
