"""Tuning in a thread while calls run in eager: what compiles and runs there works on copies, and
never with symbols."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from .trial import Trial
from .tuning import COPIES, Tuning

_worker = ThreadPoolExecutor(
    1, thread_name_prefix="framejit-tuning"
)  # one at a time: they are measured


def may_wait(tuning: Tuning) -> bool:
    """Whether a tuning can be done in another thread: torch's modes are each thread's own, its
    generators are everybody's."""
    modes = (
        torch.is_autocast_enabled("cpu")
        or torch.is_autocast_enabled("cuda")
        or torch.is_inference_mode_enabled()
    )
    return not modes and not tuning.random and Trial(tuning.gm, tuning.examples).bytes() <= COPIES


def in_background(tuning: Tuning, examples: Sequence[Any]) -> Switching:
    """Starts a tuning; what comes back runs in eager until it is done."""
    switching = Switching(tuning.gm.forward)
    copies, grad = Trial(tuning.gm, examples).copies(), torch.is_grad_enabled()
    tuning.examples, tuning.fake_mode = copies, FakeTensorMode()

    def work() -> None:
        if not threading.main_thread().is_alive():
            return  # the program has ended
        with torch.set_grad_enabled(grad):
            switching.call = tuning.decide(copies)
        copies.clear()
        tuning.examples = []

    tuning.report.working(_worker.submit(work))
    return switching


class Switching:
    """Calls what is the best so far."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self.call = call

    def __call__(self, *args: Any) -> Any:
        return self.call(*args)
