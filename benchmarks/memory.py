"""Memory: what a call takes at its peak beside what was there, and what is left when a compiled model has gone.

Peaks are what torch's allocators count, on the CPU by way of its profiler. What is left on the CPU is counted as the process's
resident memory.
"""
from __future__ import annotations

import copy
import gc
import itertools
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from . import measure, systems

SYSTEMS = ("eager", "torch-inductor", "framejit")
CALLS = 3
ROUNDS = 3  # models made, called and dropped before what is left is looked at


def peak(plan: measure.Plan, name: str, system: str) -> dict[str, float]:
    """Runs in a process of its own. Bytes of a settled call, and tensors and bytes left by models that are gone."""
    subject = measure.Subject(plan, name)
    model = settled_model(subject, system)
    found = {"peak": float(peak_of(partial(subject.call, model), plan.device))}
    del model
    drop(plan.device)
    tensors, bytes_before = live_tensors(), now(plan.device)
    for _ in range(ROUNDS):
        one = settled_model(subject, system)
        del one
        drop(plan.device)
    return found | {"tensors left": float(live_tensors() - tensors), "bytes left": float(now(plan.device) - bytes_before)}


def settled_model(subject: measure.Subject, system: str) -> Any:
    model, _ = systems.make(system, copy.deepcopy(subject.model))
    for _ in range(CALLS):
        subject.call(model)
    subject.wait()
    return model


def drop(device: str) -> None:
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()


def live_tensors() -> int:
    return sum(type(item) in (torch.Tensor, torch.nn.Parameter) for item in gc.get_objects())


def peak_of(call: Callable[[], Any], device: str) -> int:
    """Bytes that a call had allocated at most beside what was there before."""
    if device == "cuda":
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        call()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        call()
    events = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    sizes = [event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())]
    return max(itertools.accumulate(sizes, initial=0))


def now(device: str) -> int:
    return torch.cuda.memory_allocated() if device == "cuda" else status("VmRSS")


def status(name: str) -> int:
    """Bytes of a field of /proc/self/status."""
    found = re.search(rf"^{name}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


def measure_model(plan: measure.Plan, name: str) -> dict[str, dict[str, float] | str]:
    """By system: figures, or why there are none."""
    return {system: measure.in_child(plan.limit, peak, plan, name, system) for system in SYSTEMS}
