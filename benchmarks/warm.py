"""The first call of a second process beside that of the first one, which has left its caches: `python -m framejit.benchmarks.warm` is one
such process."""
from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from typing import Any

from . import measure, systems

SYSTEMS = ("eager", "torch-inductor", "framejit-native", "framejit")
COMPILERS = ("sympy", "torch._inductor.compile_fx", "torch._functorch.aot_autograd", "triton")


@dataclass(frozen=True)
class FirstCall:
    """A process's first call: its seconds, imports included; entries that framejit captured and took from disk; the compilers that it
    imported (of COMPILERS)."""

    seconds: float
    captured: int = 0
    taken: int = 0
    imported: tuple[str, ...] = ()


def first_call(plan: measure.Plan, name: str, system: str) -> FirstCall:
    """Of this process."""
    subject = measure.Subject(plan, name)
    before = set(sys.modules)
    events: list[Any] = []
    start = time.perf_counter()
    if systems.SYSTEMS[system][0] == "framejit":
        import framejit.options  # noqa: PLC0415 - imported when the clock runs

        framejit.options.config.sinks = (events.append,)
    model, _ = systems.make(system, subject.model)
    made = time.perf_counter() - start
    seconds = made + subject.time_call(model)
    kinds = [type(event).__name__ for event in events if getattr(event, "taken", True) and not getattr(event, "from_disk", False)]
    imported = tuple(one for one in COMPILERS if one in sys.modules and one not in before)
    return FirstCall(seconds, kinds.count("Captured"), kinds.count("Stored"), imported)


def measure_model(plan: measure.Plan, name: str) -> dict[str, list[FirstCall] | str]:
    """By system: the first calls of two processes that share empty caches, or what went wrong."""
    found: dict[str, list[FirstCall] | str] = {}
    for system in SYSTEMS:
        with tempfile.TemporaryDirectory() as folder:
            try:
                found[system] = [in_process(plan, name, system, folder) for _ in range(2)]
            except RuntimeError as error:
                found[system] = str(error)
    return found


def in_process(plan: measure.Plan, name: str, system: str, folder: str) -> FirstCall:
    """The first call of a new process. Raises RuntimeError with its last line of output."""
    caches = {"FRAMEJIT_CACHE_DIR": f"{folder}/framejit", "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor", "FRAMEJIT_STORE": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", __name__, json.dumps(asdict(plan)), name, system],
        env={**os.environ, **caches}, capture_output=True, text=True, timeout=plan.limit, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr.strip().rpartition("\n")[2])
    answer = json.loads(done.stdout.strip().rpartition("\n")[2])
    return FirstCall(**{**answer, "imported": tuple(answer["imported"])})


if __name__ == "__main__":
    plan_, name_, system_ = sys.argv[1:]
    print("\n" + json.dumps(asdict(first_call(measure.Plan(**json.loads(plan_)), name_, system_))))
