"""Modules compiled in place, through nn.Module's own slot for a compiled call."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.modules import module as hooks

from ..pycode.code_names import names_in
from ..values.objects.mro import class_attribute
from . import jit_tracing
from ._hook import ModuleCall

MakeHandle = Callable[[torch.nn.Module, Any], Any]


def compile_module(module: torch.nn.Module, make_handle: MakeHandle) -> list[Any]:
    """Stores a compiled call in the module's own slot for one. Returns the list of its handles'
    controls, which grows. make_handle: makes the handle of a function for a module."""
    call = CompiledCall(module, make_handle)
    module._compiled_call_impl = call
    return call.controls


def unreached_call(cls: type[torch.nn.Module]) -> str | None:
    """The name of a `__call__` of the class that never reaches the compiled call, as it does not
    call nn.Module's, judged by the names in its code; None if there is none."""
    for owner in cls.__mro__[: cls.__mro__.index(torch.nn.Module)]:
        function = inspect.unwrap(vars(owner).get("__call__", torch.nn.Module.__call__))
        if isinstance(function, types.FunctionType) and not ON_THE_WAY & names_in(
            function.__code__
        ):
            return None if function is torch.nn.Module.__call__ else function.__qualname__
    return None


# Names in a `__call__` that passes the call on.
ON_THE_WAY = frozenset({"__call__", "_call_impl", "_wrapped_call_impl", "super"})


class CompiledCall(ModuleCall):
    """The call of one module. It uses a handle of the class's forward while a call does nothing
    else (C decides that), and otherwise a handle of the whole call with all hooks. Holds the module
    weakly; pickles to None, so that copies have an empty slot. A copy made by the module's
    dictionary, which has the slot, runs uncompiled."""

    __slots__ = ("make_handle", "function", "call_impl", "forward", "whole", "controls")

    def __init__(self, module: torch.nn.Module, make_handle: MakeHandle) -> None:
        self.make_handle = make_handle
        self.controls: list[Any] = []
        self.function = class_attribute(type(module), "forward")
        self.call_impl = class_attribute(type(module), "_call_impl")
        self.whole: Any = None
        self.forward = (
            self._handle(module, self.function) if is_called_plainly(type(module)) else None
        )
        if self.forward is None:
            self._whole_call(module)
        caller = torch.nn.Module._wrapped_call_impl.__code__
        super().__init__(
            module, self.function, self.forward, vars(hooks), caller, jit_tracing.getter_address()
        )

    def _handle(self, module: Any, function: Any) -> Any:
        handle = self.make_handle(module, function)
        self.controls.append(handle.framejit)
        return handle

    def call_generally(self, module: Any, *args: Any, **kwargs: Any) -> Any:
        """Makes a call of which C could not decide that it only runs forward. While torch.jit.trace
        records, no handle is made: that reads sizes of parameters, which would be recorded."""
        if torch._C._get_tracing_state():
            return module._call_impl(*args, **kwargs)
        if self.forward is not None and only_calls_forward(module, self.function):
            return self.forward(module, *args, **kwargs)
        return self._whole_call(module)(module, *args, **kwargs)

    def _whole_call(self, module: Any) -> Any:
        if self.whole is None:
            self.whole = self._handle(module, self.call_impl)
        return self.whole

    def __reduce__(self) -> Any:
        return _nothing, ()


def is_called_plainly(cls: type) -> bool:
    """Whether a class's forward is an ordinary method, and its instances use nn.Module's call."""
    own_call = class_attribute(cls, "_call_impl") is not torch.nn.Module._call_impl
    plain = isinstance(class_attribute(cls, "forward"), types.FunctionType)
    return (
        plain
        and not own_call
        and not isinstance(class_attribute(cls, "__getattribute__"), types.FunctionType)
    )


def only_calls_forward(module: Any, forward: Any) -> bool:
    """Whether calling a module only calls `forward`, the function that its class had at compile
    time."""
    own = module.__dict__
    return not (
        own["_forward_hooks"]
        or own["_forward_pre_hooks"]
        or own["_backward_hooks"]
        or own["_backward_pre_hooks"]
        or hooks._global_forward_hooks
        or hooks._global_forward_pre_hooks
        or hooks._global_backward_hooks
        or hooks._global_backward_pre_hooks
        or "forward" in own
        or class_attribute(type(module), "forward") is not forward
    )


def _nothing() -> None:
    return None
