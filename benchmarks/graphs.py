"""What a system captures of a model: graphs, breaks, and the share of the operators run in one call that run inside of graphs.

Operators are counted as torch's profiler sees them, called from Python or from a graph, not from another operator.
"""
from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from torch.profiler import ProfilerActivity, profile, record_function

from . import measure, systems

INSIDE = "a captured graph"


class Marking(systems.CountingBackend):
    """Runs graphs as they are, marked for the profiler."""

    def __call__(self, gm: Any, example_inputs: list[Any]) -> Callable[..., Any]:
        forward = super().__call__(gm, example_inputs)

        def run_marked(*args: Any) -> Any:
            with record_function(INSIDE):
                return forward(*args)

        return run_marked


def measure_capture(plan: measure.Plan, name: str, system: str) -> dict[str, float]:
    """Runs in a process of its own."""
    subject = measure.Subject(plan, name)
    marking = Marking()
    model = systems.make(system, copy.deepcopy(subject.model), backend=marking)[0]
    for _ in range(3):
        subject.call(model)
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        subject.call(model)
    called = [event for event in profiler.events() if event.name.startswith("aten::") and not inside(event, "aten::")]
    held = sum(inside(event, INSIDE) for event in called)
    return {"graphs": marking.graphs, "ops": marking.ops, "called": len(called), "share": held / max(1, len(called))}


def inside(event: Any, name: str) -> bool:
    """Whether an event lies, at any depth, in one whose name begins so."""
    parent = event.cpu_parent
    while parent is not None:
        if parent.name.startswith(name):
            return True
        parent = parent.cpu_parent
    return False


def measure_model(plan: measure.Plan, name: str) -> dict[str, dict[str, float] | str]:
    """By system: figures, or why there are none."""
    return {system: measure.in_child(plan.limit, measure_capture, plan, name, system) for system in ("torch-eager", "framejit-eager")}
