"""What it costs to capture: milliseconds an operator, with a backend that does nothing, sizes static and all dynamic.

Each figure comes from a process of its own, in which the system has compiled a small function of the same kind before (so
that no import is in it): seconds of the first call less those of an eager call, by the operators that were captured.
"""
from __future__ import annotations

import copy

import torch

from . import measure, systems

SYSTEMS = ("torch-eager", "framejit-eager")
SIZES = {"static": False, "dynamic": True}  # dynamic= of compile()


def captures(plan: measure.Plan, name: str, system: str, dynamic: bool) -> dict[str, float]:
    """Runs in a process of its own. Milliseconds an operator, and how many."""
    subject = measure.Subject(plan, name)
    warmed, _ = systems.make(system, torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()), dynamic=dynamic)
    with torch.no_grad():
        warmed(torch.ones(3, 4))
    model, counter = systems.make(system, copy.deepcopy(subject.model), dynamic=dynamic)
    plain = min(subject.time_call(subject.model) for _ in range(3))
    first = subject.time_call(model)
    return {"ms": (first - plain) * 1e3 / max(1, counter.ops), "ops": float(counter.ops), "graphs": float(counter.graphs)}


def measure_model(plan: measure.Plan, name: str) -> dict[str, dict[str, float] | str]:
    """By "system, sizes": figures, or why there are none."""
    return {
        f"{system}, {sizes}": measure.in_child(plan.limit, captures, plan, name, system, dynamic)
        for system in SYSTEMS
        for sizes, dynamic in SIZES.items()
    }
