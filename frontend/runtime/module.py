"""Modules compiled in place, through nn.Module's own slot for a compiled call."""
from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.modules import module as hooks

from . import tracing_state
from ._hook import ModuleCall


def compile_module(module: torch.nn.Module, make_handle: Callable[[Any], Any]) -> torch.nn.Module:
    """Puts a compiled call into the module's own slot for one; the module itself comes back."""
    call = CompiledCall(module, make_handle)
    module._compiled_call_impl = call
    module.__dict__["framejit"] = ModuleControl(call.controls)
    return module


class CompiledCall(ModuleCall):
    """The call of one module: a handle of its class's forward while nothing else happens in a call, which C decides, else one
    of the whole call, hooks and all. Holds the module weakly; pickles to None, as the slot of a copy is empty."""

    __slots__ = ("make_handle", "function", "forward", "whole", "controls")

    def __init__(self, module: torch.nn.Module, make_handle: Callable[[Any], Any]) -> None:
        self.make_handle = make_handle
        self.controls: list[Any] = []
        self.function = type(module).forward
        self.whole: Any = None
        self.forward = self._handle(self.function) if isinstance(self.function, types.FunctionType) else None
        super().__init__(module, self.function, self.forward, vars(hooks), tracing_state.getter())

    def _handle(self, function: Any) -> Any:
        handle = self.make_handle(function)
        self.controls.append(handle.framejit)
        return handle

    def otherwise(self, module: Any, *args: Any, **kwargs: Any) -> Any:
        """A call of which C does not know that it is forward's alone."""
        if self.forward is not None and is_plain(module, self.function):
            return self.forward(module, *args, **kwargs)
        if self.whole is None:
            self.whole = self._handle(torch.nn.Module._call_impl)
        return self.whole(module, *args, **kwargs)

    def __reduce__(self) -> Any:
        return _nothing, ()


def is_plain(module: Any, forward: Any) -> bool:
    """Whether calling a module means calling `forward`, the function that its class had when it was compiled."""
    own = module.__dict__
    return not (
        own["_forward_hooks"] or own["_forward_pre_hooks"] or own["_backward_hooks"] or own["_backward_pre_hooks"]
        or hooks._global_forward_hooks or hooks._global_forward_pre_hooks
        or hooks._global_backward_hooks or hooks._global_backward_pre_hooks
        or "forward" in own or type(module).forward is not forward or torch._C._get_tracing_state()
    )  # fmt: skip


def _nothing() -> None:
    return None


class ModuleControl:
    """`module.framejit`: what can be asked of a compiled module. A copied or unpickled one says that it is not compiled."""

    def __init__(self, controls: list[Any] | None = None) -> None:
        self._controls = [] if controls is None else controls  # of the handle of forward, and of the whole call once that was needed

    @property
    def compiled(self) -> bool:
        """Whether this module is compiled (copies are not)."""
        return bool(self._controls)

    def wait(self) -> None:
        """Returns when nothing compiles in the background."""
        for control in self._controls:
            control.wait()

    def reset(self) -> None:
        """Forgets every entry, and what happened so far."""
        for control in self._controls:
            control.reset()

    def explain(self) -> Any:
        """What was captured so far, where it broke and why, as framejit.explain tells it; None where not compiled."""
        return max(self._controls, key=lambda control: control.compiles).explain() if self._controls else None

    @property
    def compiles(self) -> int:
        """How often something was compiled for this module."""
        return sum(control.compiles for control in self._controls)

    def __reduce__(self) -> Any:
        return ModuleControl, ()
