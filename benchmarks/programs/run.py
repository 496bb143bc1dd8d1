"""Runs the programs under each system in turn, each in a process of its own, and compares results and times with eager's."""
from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from . import PROGRAMS
from .child import Measured
from .tables import Row

TOLERANCE = 2e-3  # of numbers after many steps of training, relative to the largest
LATE = 20  # last steps in which nothing should be compiled
ROOT = Path(__file__).parents[2]


def run_program(
    name: str, systems: Sequence[str], steps: int, limit: float, clock: str = "wall", device: str = "cpu"
) -> list[Row]:
    """A row a system, eager's first."""
    names = ("eager", *(one for one in systems if one != "eager"))
    measured = {system: run_child(name, system, steps, limit, clock, device) for system in names}
    eager = measured["eager"]
    return [row_of(name, system, found, eager) for system, found in measured.items()]


def run_child(name: str, system: str, steps: int, limit: float, clock: str, device: str) -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        file, cache = Path(folder, "measured"), Path(folder, "cache")
        command = [sys.executable, "-m", f"{__package__}.child", name, system, str(steps), clock, device, str(file)]
        try:
            done = subprocess.run(
                command, cwd=ROOT, capture_output=True, text=True, timeout=limit, check=False,
                env={**os.environ, "FRAMEJIT_CACHE_DIR": str(cache), "FRAMEJIT_STORE": "1"},
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return Measured(error=f"longer than {limit:.0f} s")
        if not file.exists():
            return Measured(error=f"the process ended with {done.returncode}: {done.stderr[-500:]}")
        return Measured(**torch.load(file, weights_only=True))


def row_of(name: str, system: str, found: Measured, eager: Measured) -> Row:
    """What a table shows of one run."""
    equal = None if system == "eager" or found.error or eager.error else is_same(found.results, eager.results)
    last = statistics.median(one / max(other, 1e-9) for one, other in found.pairs) if found.pairs else 0.0
    compiles = found.compiles or [0]
    late = compiles[-1] - compiles[-LATE - 1 if len(compiles) > LATE else 0]
    return Row(name, system, equal, sum(found.seconds), last, compiles[-1], late, found.report, found.error)


def is_same(one: Any, other: Any) -> bool:
    """Whether results are equal up to the rounding that steps of training carry on."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return one == other or abs(one - other) <= TOLERANCE * max(1.0, abs(one), abs(other)) or (one != one and other != other)
    return bool(one == other)


def names_with(words: Sequence[str] = ()) -> list[str]:
    """The programs whose names contain one of the words, all for none."""
    return [name for name in PROGRAMS if not words or any(word in name for word in words)]


def missing_packages(names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Programs that cannot run here, with the packages that are not installed."""
    return {name: PROGRAMS[name].missing for name in names if PROGRAMS[name].missing}
