"""Runs the programs under each system in turn, and says how they compare with eager."""
from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from . import PROGRAMS
from .child import SYSTEMS, Measured

TOLERANCE = 2e-3  # of numbers after many steps of training, relative to the largest
LAST = 10  # steps that count as settled
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Row:
    """A program under a system, beside eager. last: the time of eager's last steps by this system's."""

    program: str
    system: str
    equal: bool | None
    seconds: float
    last: float
    compiles: int
    late_compiles: int  # in the last twenty steps
    report: int
    error: str = ""


def run_program(name: str, systems: Sequence[str], steps: int, limit: float) -> list[Row]:
    """A row a system, eager's first."""
    measured = {system: run_child(name, system, steps, limit) for system in ("eager", *(one for one in systems if one != "eager"))}
    eager = measured["eager"]
    return [row(name, system, found, eager) for system, found in measured.items()]


def run_child(name: str, system: str, steps: int, limit: float) -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        file, cache = Path(folder, "measured"), Path(folder, "cache")
        command = [sys.executable, "-m", f"{__package__}.child", name, system, str(steps), str(file)]
        try:
            done = subprocess.run(
                command, cwd=ROOT, capture_output=True, text=True, timeout=limit, check=False,
                env={**os.environ, "FRAMEJIT_CACHE_DIR": str(cache)},
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return Measured(error=f"longer than {limit:.0f} s")
        if not file.exists():
            return Measured(error=f"the process ended with {done.returncode}: {done.stderr[-500:]}")
        return Measured(**torch.load(file, weights_only=True))


def row(name: str, system: str, found: Measured, eager: Measured) -> Row:
    equal = None if system == "eager" or found.error or eager.error else same(found.results, eager.results)
    last = sum(eager.seconds[-LAST:]) / max(sum(found.seconds[-LAST:]), 1e-9)
    compiles = found.compiles or [0]
    late = compiles[-1] - compiles[-21 if len(compiles) > 20 else 0]
    return Row(name, system, equal, sum(found.seconds), last, compiles[-1], late, found.report, found.error)


def same(one: Any, other: Any) -> bool:
    """Whether results are equal up to the rounding that steps of training carry on."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return one == other or abs(one - other) <= TOLERANCE * max(1.0, abs(one), abs(other)) or (one != one and other != other)
    return bool(one == other)


def table(rows: Iterable[Row]) -> str:
    """Markdown: a line for each program and system."""
    lines = [
        "| program | system | equal | seconds | speed of the last ten steps (eager: 1) | compiles | in the last 20 steps | report |",
        "|--|--|--|--|--|--|--|--|",
    ]
    for row in rows:
        equal = "" if row.equal is None else "yes" if row.equal else "**no**"
        if row.error:
            lines.append(f"| {row.program} | {row.system} | failed: {row.error.strip().splitlines()[-1][:80]} | | | | | |")
            continue
        lines.append(
            f"| {row.program} | {row.system} | {equal} | {row.seconds:.2f} | {row.last:.2f} | {row.compiles} | {row.late_compiles} | "
            f"{row.report or ''} |"
        )
    return "\n".join(lines)


def run(names: Sequence[str], systems: Sequence[str], steps: int, limit: float, advance: Callable[[], None]) -> list[Row]:
    """The rows of all programs; those whose packages are not installed are left out by the caller."""
    rows = []
    for name in names:
        rows += run_program(name, systems, steps, limit)
        advance()
    return rows


def installed(wanted: Sequence[str] = ()) -> list[str]:
    """Programs that can run here, of those whose names contain one of the words wanted. Raises ValueError where none does."""
    found = [name for name in PROGRAMS if not wanted or any(word in name for word in wanted)]
    if not found:
        raise ValueError(f"no program's name contains {' or '.join(wanted)}; known ones: {'; '.join(PROGRAMS)}")
    return [name for name in found if not PROGRAMS[name].missing]


__all__ = ["SYSTEMS", "Row", "installed", "run", "run_program", "table"]
