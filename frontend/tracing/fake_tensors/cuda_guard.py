"""Works round a crash of torch: without a CUDA device the first FakeTensorMode of a process stores
a stand-in that is freed with its thread, and the next mode, in another thread, calls the freed
one."""

from __future__ import annotations

import threading
from functools import cache

import torch


@cache
def ensure_cuda_guard() -> None:
    """Makes the stand-in, if one is needed, in a thread that does not end. To be called before any
    FakeTensorMode."""
    if threading.current_thread() is threading.main_thread():
        torch._C._ensureCUDADeviceGuardSet()
        return
    done = threading.Event()
    threading.Thread(
        target=create_guard_and_wait, args=(done,), name="framejit CUDA guard", daemon=True
    ).start()
    done.wait()


def create_guard_and_wait(done: threading.Event) -> None:
    torch._C._ensureCUDADeviceGuardSet()
    done.set()
    threading.Event().wait()
