"""What starting a kernel costs: microseconds for each link of a chain of small kernels none of which can become one with the next.

A chain of one length is taken from a longer one, so that what a call costs as a whole is not in the figure. On the CPU the kernels' own
work is in it, on a GPU it runs beside the launching.
"""
from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from . import measure, systems

SYSTEMS = ("eager", "torch-inductor", "framejit-native", "framejit")
SHORT, LONG = 20, 120  # links
SIDE = 32  # of the matrix that goes through
CALLS = 20  # timed together
ROUNDS = 15


def chain_of(links: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """Softmax along rows, then along columns: each needs all that the one before made."""

    def chain(x: torch.Tensor) -> torch.Tensor:
        for link in range(links):
            x = torch.softmax(x, link % 2)
        return x

    return chain


@torch.no_grad()
def measure_system(system: str, device: str) -> dict[str, float]:
    """Microseconds of a link, and of a call of no links. Runs in a process of its own."""
    torch.set_num_threads(1)
    x = torch.randn(SIDE, SIDE, device=device)
    calls = {links: systems.make(system, chain_of(links))[0] for links in (SHORT, LONG)}
    for call in calls.values():
        for _ in range(5):
            call(x)
    times: dict[int, list[float]] = {links: [] for links in calls}
    for _ in range(ROUNDS):
        for links, call in calls.items():
            times[links].append(microseconds(call, x))
    short, long = (statistics.median(times[links]) for links in (SHORT, LONG))
    link = (long - short) / (LONG - SHORT)
    return {"link": link, "call": short - SHORT * link}


def microseconds(call: Callable[..., Any], x: torch.Tensor) -> float:
    """Of one of a few calls in a row, until the last one's work is done."""
    wait = torch.cuda.synchronize if x.is_cuda else int
    wait()
    start = time.perf_counter()
    for _ in range(CALLS):
        call(x)
    wait()
    return (time.perf_counter() - start) / CALLS * 1e6


def measure_all(device: str, limit: float) -> dict[str, dict[str, float] | str]:
    """By system: figures, or why there are none."""
    return {system: measure.in_child(limit, measure_system, system, device) for system in SYSTEMS}
