"""Trials in the background: what calls take while a thread compiles and tries candidates, for how long, and what they take after."""
from __future__ import annotations

import copy
import statistics
import threading
import time

from . import measure, systems


def measure_background(plan: measure.Plan, name: str) -> dict[str, float]:
    """Runs in a process of its own. Milliseconds of calls, seconds of work."""
    with measure.empty_caches():
        subject = measure.Subject(plan, name)
        eager = copy.deepcopy(subject.model)
        subject.time_call(eager)
        plain = statistics.median(subject.time_call(eager) for _ in range(20))
        model, _ = systems.make("framejit", subject.model, options={"background": True})
        start = time.perf_counter()
        first = subject.time_call(model)
        waiting = threading.Thread(target=model.framejit.wait)
        waiting.start()
        calls = []
        while waiting.is_alive():
            calls.append(subject.time_call(model))
        done = time.perf_counter() - start
        after = {system: statistics.median(times) for system, times in measure.time_rounds(subject, {"eager": eager, "framejit": model}).items()}
    return {
        "eager": plain * 1e3, "first": first * 1e3, "calls": float(len(calls)), "call": statistics.median(calls or [plain]) * 1e3,
        "longest": max(calls, default=plain) * 1e3, "done": done, "speed-up": after["eager"] / after["framejit"],
    }  # fmt: skip


def measure_model(plan: measure.Plan, name: str) -> dict[str, dict[str, float] | str]:
    return {"background": measure.in_child(plan.limit, measure_background, plan, name)}
