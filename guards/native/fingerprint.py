"""Where torch keeps its modes: the exported getters that torch_state.c calls, tried out once, at
the first TORCH_STATE.

If a symbol is missing or a mode does not show in the fingerprint, C asks TorchState.holds() at
every check instead.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import _C
from torch.utils._python_dispatch import TorchDispatchMode

from ...torch_compat import MODE_FINGERPRINT, SWITCHED_OFF
from ..torch_state import as_is
from . import _guards

KEYS = "_ZN3c104impl26raw_local_dispatch_key_setE"  # thread-local PODLocalDispatchKeySet
GETTERS = (  # library, symbol; the order is that of set_state_probes in torch_state.c
    ("c10", "_ZN3c108GradMode10is_enabledEv"),
    ("torch_cpu", "_ZN2at4impl22PythonTorchFunctionTLS9get_stateEv"),
    ("c10", "_ZN3c104impl20TorchDispatchModeTLS9stack_lenEv"),
    ("torch_cpu", "_ZN2at8autocast18get_autocast_dtypeEN3c1010DeviceTypeE"),
    ("torch_cpu", "_ZN2at8autocast25is_autocast_cache_enabledEv"),
    ("c10", "_ZN3c1031get_default_dtype_as_scalartypeEv"),
    ("torch_cpu", "_ZNK2at7Context23deterministicAlgorithmsEv"),
    ("torch_cpu", "_ZNK2at7Context31deterministicAlgorithmsWarnOnlyEv"),
    ("torch_cpu", "_ZNK2at7Context36deterministicFillUninitializedMemoryEv"),
    ("torch_cpu", "_ZN2at13globalContextEv"),
    ("torch_cpu", "_ZN2at23SavedTensorDefaultHooks13get_tls_stateEv"),
)


def autocast(**change: Any) -> torch.autocast:
    """The present autocast of the cpu, but for the change."""
    now: dict[str, Any] = {
        "enabled": torch.is_autocast_enabled("cpu"),
        "dtype": torch.get_autocast_dtype("cpu"),
        "cache_enabled": torch.is_autocast_cache_enabled(),
    }
    return torch.autocast("cpu", **now | change)


@contextmanager
def two_modes() -> Iterator[None]:
    """Enters two modes for the device of new tensors, which are function modes."""
    with torch.device("meta"), torch.device("cpu"):
        yield


def other_half() -> torch.dtype:
    return torch.float16 if torch.get_autocast_dtype("cpu") is torch.bfloat16 else torch.bfloat16


class PassOn(TorchDispatchMode):
    """A dispatch mode that changes nothing."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class FakePassOn(PassOn):
    """One where torch keeps that of fake tensors: they need much to be imported."""

    _mode_key = _C._TorchDispatchModeKey.FAKE


# Thread-local modes, each of which must show. (Global ones are read by getters that are named for
# them.)
TRIALS: tuple[Callable[[], AbstractContextManager[Any]], ...] = (
    lambda: torch.set_grad_enabled(not torch.is_grad_enabled()),
    lambda: torch.inference_mode(not torch.is_inference_mode_enabled()),
    lambda: autocast(enabled=not torch.is_autocast_enabled("cpu")),
    lambda: autocast(dtype=other_half()),
    lambda: autocast(cache_enabled=not torch.is_autocast_cache_enabled()),
    lambda: _C.DisableTorchFunctionSubclass(),
    lambda: _C.DisableTorchFunction(),
    lambda: torch.device("meta"),
    lambda: two_modes(),
    lambda: PassOn(),
    lambda: FakePassOn(),
    lambda: torch.autograd.graph.saved_tensors_hooks(as_is, as_is),
)

_forced_off = False


def force(on: bool) -> None:
    """Switches fingerprints on or off, for tests."""
    global _forced_off
    _forced_off = not on
    _guards.set_state_probes(probes() if on else None)


@cache
def calibrate() -> bool:
    """Hand the getters to C; False, and none of them, where they don't tell all modes apart."""
    if _forced_off or MODE_FINGERPRINT in SWITCHED_OFF:
        return False
    try:
        _guards.set_state_probes(probes())
        if all(map(shows, TRIALS)):
            return True
    except Exception:  # an unknown torch: the slow way is always right
        pass
    _guards.set_state_probes(None)
    return False


def probes() -> tuple[Any, ...]:
    addresses = [address(load_library(name), symbol) for name, symbol in GETTERS]
    return (
        load_library("c10")._handle,
        KEYS,
        *addresses,
        _C._get_function_stack_at,
        _C._get_dispatch_stack_at,
    )


def shows(trial: Callable[[], AbstractContextManager[Any]]) -> bool:
    """Whether a mode changes the fingerprint, and its counts of modes are torch's own."""
    before = _guards.fingerprint()
    with trial():
        during = _guards.fingerprint()
        counted = during is not None and during[1:] == (
            _C._len_torch_function_stack(),
            _C._len_torch_dispatch_stack(),
        )
    return before is not None and counted and before != during and _guards.fingerprint() == before


@cache
def load_library(name: str) -> ctypes.CDLL:
    """A library of torch's; they are loaded already, but not into the global scope."""
    path = Path(torch.__file__).parent / "lib" / f"lib{name}.so"
    return ctypes.CDLL(str(path), mode=os.RTLD_NOLOAD | os.RTLD_NOW)


def address(library: ctypes.CDLL, symbol: str) -> int:
    found = ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value
    if not found:
        raise AttributeError(symbol)
    return found
