"""One program under one system in a process of its own: `python -m benchmarks.programs.child NAME SYSTEM STEPS CLOCK DEVICE FILE`.

The system has compiled something else before, so that what it imports is paid; what the process itself compiles for the program is timed
with its steps.
"""
from __future__ import annotations

import random
import resource
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from . import PROGRAMS
from .program import Compile, Step


@dataclass
class Measured:
    """What one run showed. `compiles`: how many had begun when each step ended; report: lines of explain()'s text. pairs: of steps behind
    the last one, eager's time, of a second copy of the program in this process, and this system's, in turn."""

    seconds: list[float] = field(default_factory=list)
    pairs: list[tuple[float, float]] = field(default_factory=list)
    results: list[Any] = field(default_factory=list)
    compiles: list[int] = field(default_factory=list)
    report: int = 0
    error: str = ""


def eager() -> tuple[Compile, Callable[[], int], Callable[[], int]]:
    return lambda target: target, lambda: 0, lambda: 0


def torch_compile() -> tuple[Compile, Callable[[], int], Callable[[], int]]:
    import torch._dynamo  # noqa: PLC0415 - one system a process

    count = torch._dynamo.utils.counters["stats"]
    return lambda target: torch.compile(target, backend="aot_eager"), lambda: count["unique_graphs"], lambda: 0


def framejit_with(backend: str) -> Callable[[], tuple[Compile, Callable[[], int], Callable[[], int]]]:
    def system() -> tuple[Compile, Callable[[], int], Callable[[], int]]:
        import framejit  # noqa: PLC0415 - one system a process
        from framejit.events import CompileStarted  # noqa: PLC0415 - one system a process

        # what its compilers import is paid too; the default backend would import them later
        framejit.compile(torch.nn.Linear(4, 4), backend="native")(torch.ones(2, 4)).sum().backward()
        made: list[Any] = []
        begun: list[Any] = []
        framejit.config.sinks = (*framejit.config.sinks, lambda event: begun.append(event) if isinstance(event, CompileStarted) else None)

        def compile(target: Any) -> Any:
            made.append(framejit.compile(target, backend=backend))
            return made[-1]

        def lines() -> int:
            return max((len(str(one.framejit.explain()).splitlines()) for one in made), default=0)

        return compile, lambda: len(begun), lines

    return system


SYSTEMS = {
    "eager": eager,
    "torch.compile (aot_eager)": torch_compile,
    "framejit (eager)": framejit_with("eager"),
    "framejit": framejit_with("autotune"),
}


def warm_up(compile: Compile) -> None:
    """Compiles something, forwards and backwards, with sizes that vary."""
    layer = torch.nn.Linear(4, 4)
    compiled = compile(layer)
    for size in (2, 3):
        compiled(torch.ones(size, 4)).sum().backward()


def processor_time() -> float:
    """Seconds that this process and those it has waited for have computed."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def wall_time() -> float:
    """Seconds, once the GPU has done what it was given."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return time.perf_counter()


PAIRS = 20
CLOCKS = {"wall": wall_time, "processor": processor_time}


def seed(number: int) -> None:
    random.seed(number)
    torch.manual_seed(number)


def prepare(name: str, compile: Compile) -> Step:
    """The program's step, with parameters and draws that depend on the program alone."""
    seed(0)
    step = PROGRAMS[name].make(compile)
    torch.manual_seed(0)
    return step


def compare(step: Step, eager_step: Step, first: int, now: Callable[[], float]) -> Iterator[tuple[float, float]]:
    """Seconds of the steps from `first` on, in eager and compiled in turn, so that what else the machine does meets both.

    The eager copy has taken the steps before, and both draw the same random numbers: a solver that adapts, or an optimizer that searches a
    line, does as much work in a step as the state asks for."""
    for number in range(first):
        eager_step(number)
    for number in range(first, first + PAIRS):
        times = []
        for one in (eager_step, step):
            seed(number)
            start = now()
            one(number)
            times.append(now() - start)
        yield times[0], times[1]


def measure(name: str, system: str, steps: int, clock: str = "wall", device: str = "cpu") -> Measured:
    now = CLOCKS[clock]
    warnings.simplefilter("ignore")
    torch.set_default_device(device)
    torch.set_num_threads(1)
    compile, compiles, lines = SYSTEMS[system]()
    warm_up(compile)
    measured = Measured()
    before = compiles()
    try:
        step = prepare(name, compile)
        for number in range(steps):
            start = now()
            results = step(number)
            measured.seconds.append(now() - start)
            measured.results.append([item.tolist() if isinstance(item, torch.Tensor) else item for item in tree_leaves(results)])
            measured.compiles.append(compiles() - before)
        measured.report = lines()
        measured.pairs = list(compare(step, prepare(name, lambda target: target), steps, now))
    except Exception:
        measured.error = traceback.format_exc()[-2000:]
    return measured


if __name__ == "__main__":
    _, name, system, steps, clock, device, file = sys.argv
    torch.save(vars(measure(name, system, int(steps), clock, device)), Path(file))
