"""One model under several systems: first calls in processes of their own, steady state interleaved in one process.

A first call is timed after one eager call, in a process with empty caches that has not imported the system yet: its import is
part of it. (framejit has been imported by then, as these files are its own; what that takes is measured apart and added.)
In steady state each system has its own deep copy of the model, and rounds go through the systems in random order, so
that a drift of the machine hits all alike.
"""
from __future__ import annotations

import contextlib
import copy
import functools
import itertools
import multiprocessing
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from framejit.backends.autotune.patience import WAITING
from framejit.options import config
from torch import nn
from torch.utils._pytree import tree_leaves

from . import systems, zoo


@dataclass(frozen=True)
class Plan:
    """What is measured, and how."""

    systems: tuple[str, ...]
    size: str = "small"
    device: str = "cpu"
    dtype: str = "float32"
    train: bool = False
    seconds: float = 2.0  # of steady state, a system
    limit: float = 300.0  # seconds that one process may take
    threads: int = 1  # of torch on the CPU; 0 for torch's own choice


@dataclass
class Result:
    """One system on one model. None: not measured."""

    first_s: float | None = None
    settled_s: float | None = None  # from the start of the first call to that of the first one at the final speed
    steady_ms: float | None = None
    graphs: int | None = None
    ops: int | None = None
    later: int = 0  # graphs compiled after the first call
    error: float | None = None  # largest relative error of an output or gradient against eager
    failure: str = ""


class Subject:
    """A model with its inputs, as one plan wants it."""

    def __init__(self, plan: Plan, name: str) -> None:
        self.plan = plan
        torch.set_float32_matmul_precision("high")
        if plan.threads:
            torch.set_num_threads(plan.threads)
        scale = zoo.Scale.of_size(plan.size, plan.device, getattr(torch, plan.dtype))
        self.model, (self.args, self.kwargs) = zoo.build(name, scale)
        self.model.train(plan.train)
        for module in self.model.modules():  # dropout is off: outputs must be comparable
            if isinstance(module, nn.Dropout):
                module.p = 0.0

    def time_call(self, model: Any) -> float:
        """Seconds of one call."""
        self.wait()
        start = time.perf_counter()
        self.call(model)
        self.wait()
        return time.perf_counter() - start

    def call(self, model: nn.Module) -> Any:
        """One forward, or in training one forward and backward."""
        if not self.plan.train:
            with torch.no_grad():
                return model(*self.args, **self.kwargs)
        model.zero_grad(set_to_none=True)
        out = model(*self.args, **self.kwargs)
        torch.stack([leaf.float().square().mean() for leaf in float_leaves(out)]).sum().backward()
        return out

    def results(self, model: nn.Module) -> list[torch.Tensor]:
        """Outputs, and in training gradients, of one call."""
        torch.manual_seed(1)
        leaves = [leaf.detach().clone() for leaf in float_leaves(self.call(model))]
        return leaves + [p.grad.detach().clone() for p in model.parameters() if p.grad is not None]

    def wait(self) -> None:
        if self.plan.device == "cuda":
            torch.cuda.synchronize()


def float_leaves(out: Any) -> list[torch.Tensor]:
    out = out.to_tuple() if hasattr(out, "to_tuple") else out
    return [leaf for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()]


def relative_error(got: list[torch.Tensor], wanted: list[torch.Tensor]) -> float:
    """The largest |got - wanted| / |wanted| in float64; what is zero up to rounding is judged against the largest tensor."""
    if len(got) != len(wanted):
        return float("nan")
    floor = 1e-3 * max((w.double().norm().item() for w in wanted), default=0.0) + 1e-12
    errors = [(g.double() - w.double()).norm().item() / max(w.double().norm().item(), floor) for g, w in zip(got, wanted, strict=True)]
    return max(errors, default=0.0)


LONGEST_WAIT = 20.0  # seconds of calls until a system's backends have been tried
FURTHER = 12  # calls behind the first one, of which the last half tell the final speed
NEAR = 1.05  # times the final one, a call's duration is at the final speed


def first_call(plan: Plan, name: str, system: str) -> Result:
    """Runs in a process of its own. The first call, and some more to see when they get no faster."""
    with empty_caches():
        subject = Subject(plan, name)
        subject.call(copy.deepcopy(subject.model))
        subject.wait()
        start = time.perf_counter()
        model, _ = systems.make(system, subject.model)
        subject.call(model)
        subject.wait()
        first = time.perf_counter() - start
        further = [subject.time_call(model) for _ in range(FURTHER)]
        return Result(first_s=first, settled_s=first + until_settled(further))


def until_settled(calls: Sequence[float]) -> float:
    """Seconds of the calls before the first one that is as fast as the last half of them are."""
    final = NEAR * statistics.median(calls[len(calls) // 2:])
    return sum(itertools.takewhile(lambda spent: spent > final, calls))


@contextlib.contextmanager
def empty_caches() -> Iterator[None]:
    """Caches on disk, of all systems, that have nothing in them. For a process of its own."""
    with tempfile.TemporaryDirectory() as caches:
        os.environ |= {variable: os.path.join(caches, variable) for variable in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")}
        with config.patch(cache_dir=Path(caches) / "framejit"):
            yield


@functools.cache
def import_s() -> float:
    """Seconds that importing framejit takes where torch is there already."""
    code = "import time, torch; start = time.perf_counter(); import framejit; print(time.perf_counter() - start)"
    return float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def steady_state(plan: Plan, name: str) -> dict[str, Result]:
    """Runs in a process of its own. Settles, checks and times all systems of the plan."""
    subject = Subject(plan, name)
    results = {system: Result() for system in plan.systems}
    models: dict[str, nn.Module] = {}
    wanted: list[torch.Tensor] | None = None
    for system in plan.systems:
        try:
            models[system] = settle(subject, system, results[system])
            got = subject.results(models[system])
            wanted = got if wanted is None else wanted
            results[system].error = relative_error(got, wanted)
        except Exception as error:  # a system that fails is a row that says so
            results[system].failure = describe_error(error)
            models.pop(system, None)
    for system, times in time_rounds(subject, models).items():
        results[system].steady_ms = statistics.median(times) * 1e3
    return results


def settle(subject: Subject, system: str, result: Result) -> nn.Module:
    """Calls until nothing is compiled any more, and notes what was captured by the first call."""
    model, counter = systems.make(system, copy.deepcopy(subject.model))
    subject.call(model)
    if counter.graphs or counter.ops:
        result.graphs, result.ops = counter.graphs, counter.ops
    for _ in range(3):
        subject.call(model)
    end = time.perf_counter() + LONGEST_WAIT
    while is_waiting(model) and time.perf_counter() < end:
        for _ in range(20):
            subject.call(model)
    result.later = counter.graphs - (result.graphs or 0)
    return model


def is_waiting(model: Any) -> bool:
    """Whether framejit runs a graph as captured until trying its backends is worth it."""
    handle = getattr(model, "framejit", None)
    return handle is not None and WAITING in handle.explain().details()


def time_rounds(subject: Subject, models: dict[str, nn.Module]) -> dict[str, list[float]]:
    """Seconds of each call of each model, in rounds of random order."""
    times: dict[str, list[float]] = {system: [] for system in models}
    end = time.perf_counter() + subject.plan.seconds * len(models)
    count = 0
    while models and (time.perf_counter() < end or count < 5) and count < 500:
        for system, model in random.sample(list(models.items()), len(models)):
            subject.wait()
            start = time.perf_counter()
            subject.call(model)
            subject.wait()
            times[system].append(time.perf_counter() - start)
        count += 1
    return times


def describe_error(error: BaseException) -> str:
    first, *_ = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {first[:160]}"


def in_child(limit: float, function: Callable[..., Any], *arguments: Any) -> Any:
    """The function's result from a forked process; an exception's words or the reason why none came as a str."""
    here, there = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=_send, args=(there, function, arguments))
    child.start()
    there.close()
    try:
        return here.recv() if here.poll(limit) else f"no result in {limit:.0f} s"
    except EOFError:
        child.join()
        return f"died with exit code {child.exitcode}"
    except KeyboardInterrupt:
        child.kill()
        raise
    finally:
        child.join(5)
        if child.is_alive():
            child.kill()


def _send(pipe: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    try:
        with contextlib.suppress(KeyboardInterrupt):  # the parent's, which gets it too
            pipe.send(function(*arguments))
    except Exception as error:  # the parent prints it in the row
        pipe.send(describe_error(error))


def measure(plan: Plan, name: str, progress: Callable[[str], None] = print) -> dict[str, Result]:
    """All results of one model."""
    progress(f"{name}: steady state")
    steady = in_child(plan.limit, steady_state, plan, name)
    if isinstance(steady, str):
        return {system: Result(failure=steady) for system in plan.systems}
    for system in plan.systems:
        if systems.SYSTEMS[system][0]:
            progress(f"{name}: first call of {system}")
            first = in_child(plan.limit, first_call, plan, name, system)
            if isinstance(first, str):
                steady[system].failure = steady[system].failure or first
            else:
                imports = import_s() if systems.SYSTEMS[system][0] == "framejit" else 0.0
                steady[system].first_s, steady[system].settled_s = first.first_s + imports, first.settled_s + imports
    return steady
