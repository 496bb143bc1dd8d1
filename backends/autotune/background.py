"""Tuning in a thread, while calls run in eager. Code that compiles and runs in the thread gets
copies of inputs, and never symbols."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from .trial import Trial
from .tuning import COPIES, Tuning

# one tuning at a time, since they are measured
_worker = ThreadPoolExecutor(1, thread_name_prefix="framejit-tuning")


def may_wait(tuning: Tuning) -> bool:
    """Whether a tuning can run in another thread: torch's modes are thread-local, and its
    generators are shared."""
    modes = (
        torch.is_autocast_enabled("cpu")
        or torch.is_autocast_enabled("cuda")
        or torch.is_inference_mode_enabled()
    )
    return not modes and not tuning.random and Trial(tuning.gm, tuning.examples).bytes() <= COPIES


def in_background(tuning: Tuning, examples: Sequence[Any]) -> SwitchableCall:
    """Starts a tuning. The returned callable runs in eager until the tuning is done."""
    switching = SwitchableCall(tuning.gm.forward)
    copies, grad = Trial(tuning.gm, examples).copies(), torch.is_grad_enabled()
    tuning.examples, tuning.fake_mode = copies, FakeTensorMode()

    def work() -> None:
        if not threading.main_thread().is_alive():
            return  # the program is ending
        with torch.set_grad_enabled(grad):
            switching.call = tuning.decide(copies)
        copies.clear()
        tuning.examples = []

    tuning.report.working(_worker.submit(work))
    return switching


class SwitchableCall:
    """Calls the best callable so far."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self.call = call

    def __call__(self, *args: Any) -> Any:
        return self.call(*args)
