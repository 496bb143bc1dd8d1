"""Finds the address of torch's getter for "torch.jit is tracing", so that C can call it. It is
tried once, to check it."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path

import torch

# const std::shared_ptr<TracingState>& getTracingState()
GETTER = "_ZN5torch3jit6tracer15getTracingStateEv"


@cache
def getter_address() -> int:
    """The address of torch's getter; 0 where this torch has none that shows tracing."""
    try:
        library = ctypes.CDLL(
            str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"),
            mode=os.RTLD_NOLOAD | os.RTLD_NOW,
        )
        found = library[GETTER]
        found.restype, found.argtypes = ctypes.c_void_p, []
        return ctypes.cast(found, ctypes.c_void_p).value or 0 if shows_tracing(found) else 0
    except Exception:  # an unknown torch: Python asks torch instead, which is slower
        return 0


def shows_tracing(found: ctypes._NamedFuncPointer) -> bool:
    """Whether the word that the getter points to is NULL exactly while nothing is traced."""

    def is_tracing() -> bool:
        return ctypes.c_uint64.from_address(found()).value != 0

    inside: list[bool] = []

    def probe_tracing(tensor: torch.Tensor) -> torch.Tensor:
        inside.append(is_tracing())
        return tensor

    if torch._C._get_tracing_state() is not None or is_tracing():
        return False
    torch._C._create_graph_by_tracing(
        probe_tracing, (torch.zeros(()),), lambda value: "", True, False, None, []
    )
    return inside == [True] and not is_tracing()
