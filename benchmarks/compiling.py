"""Where the time of a first call goes: seconds by phase, and milliseconds an operator, of framejit and of torch.compile."""
from __future__ import annotations

import copy

import torch

from . import measure, systems

SYSTEMS = ("torch-inductor", "framejit-native", "framejit")


def phases(plan: measure.Plan, name: str, system: str) -> dict[str, float]:
    """Runs in a process of its own, in which the system has compiled something small before. "first call" is without an eager call."""
    with measure.empty_caches():
        return phases_here(plan, name, system)


def phases_here(plan: measure.Plan, name: str, system: str) -> dict[str, float]:
    subject = measure.Subject(plan, name)
    warmed, _ = systems.make(system, torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh()))
    with torch.no_grad():
        warmed(torch.ones(3, 4))
    plain = min(subject.time_call(subject.model) for _ in range(3))
    before = dynamo_phases()
    model, _ = systems.make(system, copy.deepcopy(subject.model))
    first = subject.time_call(model)
    found: dict[str, float] = {"first call": first - plain}
    if systems.SYSTEMS[system][0] == "framejit":
        report = model.framejit.explain()
        found |= {"ops": report.ops, **report.seconds}
    else:
        found |= {phase: spent - before.get(phase, 0.0) for phase, spent in dynamo_phases().items()}
    return found


DYNAMO = {"entire_frame_compile": "all", "_compile.compile_inner": "all", "backend_compile": "backend"}


def dynamo_phases() -> dict[str, float]:
    """torch.compile's own counts so far, in seconds."""
    import torch._dynamo.utils as counts  # noqa: PLC0415 - a second of import that is not part of a first call

    found: dict[str, float] = {}
    for name, taken in counts.compilation_time_metrics.items():
        if name in DYNAMO:
            found[DYNAMO[name]] = sum(taken)
    return found


def measure_model(plan: measure.Plan, name: str) -> dict[str, dict[str, float] | str]:
    """By system: figures, or why there are none."""
    return {system: measure.in_child(plan.limit, phases, plan, name, system) for system in SYSTEMS}
