"""What a call costs before any kernel runs: microseconds above the plain call, on small functions that need different guards."""
from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from . import systems
from .measure import describe_error

CALLS = 50  # timed together

Case = tuple[Callable[..., Any], tuple[Any, ...]]


def small() -> torch.Tensor:
    return torch.randn(4)


def one_tensor() -> Case:
    return lambda x: x + 1, (small(),)


def eight_tensors() -> Case:
    def last_of_eight(a, b, c, d, e, f, g, h):  # type: ignore[no-untyped-def]
        return a + h

    return last_of_eight, tuple(small() for _ in range(8))


def config_of_50() -> Case:
    config = SimpleNamespace(**{f"k{n}": n for n in range(50)})

    def read_all(x, config):  # type: ignore[no-untyped-def]
        return x + sum([getattr(config, name) for name in NAMES])

    return read_all, (small(), config)


NAMES = tuple(f"k{n}" for n in range(50))


def nested_dicts() -> Case:
    return lambda x, d: x + d["a"] + d["b"]["c"], (small(), {"a": small(), "b": {"c": small()}})


def modules_200() -> Case:
    return nn.Sequential(*(nn.Identity() for _ in range(200)), nn.Linear(4, 4)), (small(),)


class Parameters(nn.Module):
    """Reads a hundred parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.all = nn.ParameterList(nn.Parameter(small()) for _ in range(100))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.cat(list(self.all)).sum()


def parameters_100() -> Case:
    return Parameters(), (small(),)


def one_break() -> Case:
    def breaks(x):  # type: ignore[no-untyped-def]
        y = x + 1
        print("", end="")
        return y + 1

    return breaks, (small(),)


def closure() -> Case:
    scale, shift = small(), 3

    def outer(x):  # type: ignore[no-untyped-def]
        def inner(z):  # type: ignore[no-untyped-def]
            return z * scale + shift

        return inner(x)

    return outer, (small(),)


CASES = (one_tensor, eight_tensors, config_of_50, nested_dicts, modules_200, parameters_100, one_break, closure)


@torch.no_grad()
def measure_case(make: Callable[[], Case], wanted: Sequence[str], rounds: int) -> dict[str, float | str]:
    """Microseconds of a call, by system; the describe_error of an exception where one fails. Medians of interleaved rounds."""
    torch.set_num_threads(1)
    calls: dict[str, tuple[Any, tuple[Any, ...]]] = {}
    results: dict[str, float | str] = {}
    for system in wanted:
        try:
            function, arguments = make()
            compiled, _ = systems.make(system, function)
            for _ in range(20):
                compiled(*arguments)
            calls[system] = compiled, arguments
        except Exception as error:  # a system that fails is a cell that says so
            results[system] = describe_error(error)
    times: dict[str, list[float]] = {system: [] for system in calls}
    for _ in range(rounds):
        for system, (function, arguments) in calls.items():
            start = time.perf_counter_ns()
            for _ in range(CALLS):
                function(*arguments)
            times[system].append((time.perf_counter_ns() - start) / CALLS / 1e3)
    return results | {system: statistics.median(taken) for system, taken in times.items()}
