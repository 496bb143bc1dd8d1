"""State around a call in which framejit does not compile: torch.func and forward-mode levels,
function and dispatch modes, saved-tensor hooks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.fx import _symbolic_trace
from torch.overrides import BaseTorchFunctionMode
from torch.utils._device import DeviceContext

from ...guards.guard import Guard, Kind
from ...guards.program import GuardProgram
from ...guards.source import DictItem, InstanceDict, ModuleSource, TorchStateSource
from ...guards.torch_state import TorchState, as_is, saved_tensor_hooks
from ...records import record

DUAL_LEVEL = DictItem(InstanceDict(ModuleSource(forward_ad.__name__)), "_current_level")


def inside_a_transform() -> bool:
    """Whether tensors may belong to a level of torch.func or of forward-mode differentiation: such
    calls run in eager."""
    return torch._C._functorch.maybe_current_level() is not None or forward_ad._current_level >= 0


@record
class OperationWatcher:
    """Something of the program that observes every operation, such as a mode. `below`: it observes
    inside torch's dispatcher, where nothing can be compiled."""

    sentence: str
    below: bool


def operation_watcher() -> OperationWatcher | None:
    """What observes the operations of this thread, so that calls have to run in eager; None for
    nothing."""
    if torch._C._get_tracing_state() is not None:
        return OperationWatcher("torch.jit.trace records its operations", True)
    if getattr(_symbolic_trace, "_is_fx_tracing_flag", False):
        return OperationWatcher("torch.fx traces its operations", True)
    if torch._ops._len_torch_dispatch_stack_pre_dispatch():
        return OperationWatcher("a tracer of torch's records its operations", True)
    modes: list[Any] = [
        torch._C._get_dispatch_stack_at(at) for at in range(torch._C._len_torch_dispatch_stack())
    ]
    below = bool(modes)
    if torch._C._is_torch_function_mode_enabled():
        modes += [
            torch._C._get_function_stack_at(at)
            for at in range(torch._C._len_torch_function_stack())
        ]
    seen = next(
        (type(mode).__qualname__ for mode in modes if not only_affects_creation(type(mode))), None
    )
    if seen is not None:
        return OperationWatcher(f"the mode {seen} watches its operations", below)
    if saved_tensor_hooks():
        return OperationWatcher("hooks of the program's watch what autograd saves", False)
    return None


def only_affects_creation(mode: type) -> bool:
    """Whether a mode only changes where or how tensors are created."""
    return mode in (DeviceContext, BaseTorchFunctionMode, FakeTensorMode)


def guards_of_active_modes() -> list[Guard]:
    """Guards that the active modes stay the same."""
    return [
        Guard(TorchStateSource(), Kind.TORCH_STATE, TorchState.now()),
        Guard(DUAL_LEVEL, Kind.EQUALS, forward_ad._current_level),
    ]


def program_of_active_modes() -> GuardProgram:
    return GuardProgram.build(guards_of_active_modes())


@contextlib.contextmanager
def without_saved_tensor_hooks() -> Iterator[None]:
    """Disables the user's saved-tensor hooks while a graph is compiled, since torch runs it on fake
    tensors."""
    if not torch._C._autograd._saved_tensors_hooks_is_enabled():  # type: ignore[attr-defined]
        yield
        return
    torch._C._autograd._push_saved_tensors_default_hooks(as_is, as_is)
    try:
        yield
    finally:
        torch._C._autograd._pop_saved_tensors_default_hooks()
