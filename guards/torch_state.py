"""TorchState: a frozen snapshot of torch's thread-local and global modes, for guards of kind
TORCH_STATE.

`now()` is the meaning; native/torch_state.c remembers cheap fingerprints under which it held.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import torch
from torch import _C
from torch.utils._device import DeviceContext

from ..records import record

AUTOCAST_DEVICES = ("cpu", "cuda")


@record
class TorchState:
    """The state that operators read beside their arguments. Each field is one query to torch, see
    `now`."""

    grad: bool
    inference: bool
    # subclasses' (False under DisableTorchFunction(Subclass)), modes' if any
    functions_enabled: tuple[bool, bool]
    # (type, device of a DeviceContext or None), outermost first
    function_modes: tuple[tuple[type, Any], ...]
    dispatch_modes: tuple[type, ...]  # outermost first
    autocast: tuple[tuple[bool, torch.dtype], ...]  # one a device of AUTOCAST_DEVICES
    autocast_cache: bool
    default_dtype: torch.dtype
    deterministic: tuple[bool, bool, bool]  # algorithms, warn only, fill uninitialized memory
    included_keys: (
        int  # the thread's dispatch keys: functorch levels, tracing, functionalization ...
    )
    excluded_keys: int
    saved_tensor_hooks: (
        bool  # the program's own; torch's (checkpoints, save_on_cpu) give back what they were given
    )

    @classmethod
    def now(cls) -> TorchState:
        """The state of the current thread."""
        return cls(
            grad=torch.is_grad_enabled(),
            inference=torch.is_inference_mode_enabled(),
            functions_enabled=(
                _C._is_torch_function_enabled(),
                _C._is_torch_function_mode_enabled(),
            ),
            function_modes=function_modes(),
            dispatch_modes=dispatch_modes(),
            autocast=tuple(
                (torch.is_autocast_enabled(device), torch.get_autocast_dtype(device))
                for device in AUTOCAST_DEVICES
            ),
            autocast_cache=torch.is_autocast_cache_enabled(),
            default_dtype=torch.get_default_dtype(),
            deterministic=(
                _C._get_deterministic_algorithms(),
                _C._get_deterministic_algorithms_warn_only(),
                _C._get_deterministic_fill_uninitialized_memory(),
            ),
            included_keys=effective(_C._dispatch_tls_local_include_set().raw_repr()),
            excluded_keys=_C._dispatch_tls_local_exclude_set().raw_repr(),
            saved_tensor_hooks=saved_tensor_hooks(),
        )

    def holds(self) -> bool:
        return self == TorchState.now()

    def difference(self, other: TorchState) -> tuple[str, Any, Any]:
        """The first field in which they differ, for a person: its name, ours, theirs."""
        for field in fields(self):
            ours, theirs = getattr(self, field.name), getattr(other, field.name)
            if ours != theirs:
                return field.name, ours, theirs
        return "torch state", self, other


DENSE = _C.DispatchKeySet(_C.DispatchKey.Dense).raw_repr()


def effective(keys: int) -> int:
    """Keys without the one for dense tensors where no backend is named beside it, so that it means
    nothing: stft() of a wrapper subclass leaves it behind."""
    backends = DENSE - 1  # the bits below
    return keys if keys & backends else keys & ~DENSE


def function_modes() -> tuple[tuple[type, Any], ...]:
    modes = map(_C._get_function_stack_at, range(_C._len_torch_function_stack()))
    return tuple(
        (type(mode), mode.device if type(mode) is DeviceContext else None) for mode in modes
    )


def dispatch_modes() -> tuple[type, ...]:
    return tuple(
        type(_C._get_dispatch_stack_at(at)) for at in range(_C._len_torch_dispatch_stack())
    )


def saved_tensor_hooks() -> bool:
    """Whether hooks of the program see the tensors that autograd saves."""
    hooks = _C._autograd._top_saved_tensors_default_hooks(False)
    return hooks is not None and getattr(hooks[0], "__module__", None) not in HOOKS_AS_IS


HOOKS_AS_IS = frozenset({"torch.utils.checkpoint", "torch.autograd.graph", __name__})


def as_is(tensor: Any) -> Any:
    """A hook that changes nothing."""
    return tensor
