"""Modules compiled in place, through nn.Module's own slot for a compiled call."""
from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch


def compile_module(module: torch.nn.Module, make_handle: Callable[[Any], Any]) -> torch.nn.Module:
    """Puts a handle of the module's call into its compiled-call slot; the module itself comes back."""
    handle = make_handle(type(module)._call_impl)
    module._compiled_call_impl = CompiledCall(module, handle)
    module.__dict__["framejit"] = ModuleControl(handle.framejit)
    return module


class CompiledCall:
    """The call of one module by a handle. Holds the module weakly; pickles to None, as the slot of a copy is empty."""

    __slots__ = ("handle", "module")

    def __init__(self, module: torch.nn.Module, handle: Any) -> None:
        self.module, self.handle = weakref.ref(module), handle

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.handle(self.module(), *args, **kwargs)

    def __reduce__(self) -> Any:
        return _nothing, ()


def _nothing() -> None:
    return None


class ModuleControl:
    """`module.framejit`: what can be asked of a compiled module. A copied or unpickled one says that it is not compiled."""

    def __init__(self, control: Any = None) -> None:
        self._control = control

    @property
    def compiled(self) -> bool:
        """Whether this module is compiled (copies are not)."""
        return self._control is not None

    def wait(self) -> None:
        """Returns when nothing compiles in the background."""
        if self._control is not None:
            self._control.wait()

    def reset(self) -> None:
        """Forgets every entry, and what happened so far."""
        if self._control is not None:
            self._control.reset()

    def explain(self) -> Any:
        """What was captured so far, where it broke and why, as framejit.explain tells it; None where not compiled."""
        return None if self._control is None else self._control.explain()

    @property
    def compiles(self) -> int:
        """How often something was compiled for this module."""
        return 0 if self._control is None else self._control.compiles

    def __reduce__(self) -> Any:
        return ModuleControl, ()
