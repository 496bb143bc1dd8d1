"""What was measured of programs, as markdown: a line a program and system, and how many programs meet what is promised."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

LEVEL = 0.97  # of eager's speed: a program that has settled is not slower


@dataclass(frozen=True)
class Row:
    """A program under a system, beside eager. last: eager's time by this system's, of steps behind the last."""

    program: str
    system: str
    equal: bool | None
    seconds: float
    last: float
    compiles: int
    late_compiles: int  # in the last twenty steps
    report: int  # lines of explain()'s text
    error: str = ""


def table(rows: Sequence[Row]) -> str:
    """A line for each program and system."""
    lines = [
        "| program | system | equal | seconds | speed of further steps (median; eager: 1) | compiles | in the last 20 steps | "
        "lines of the report |",
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


def summary(rows: Sequence[Row]) -> str:
    """A line for each system: all programs together."""
    lines = [
        f"| system | programs | failed | not equal | further steps below {LEVEL} | compile in the last 20 steps | seconds in all | "
        "slower in all than torch.compile |",
        "|--|--|--|--|--|--|--|--|",
    ]
    others = {row.program: row.seconds for row in rows if row.system.startswith("torch.compile") and not row.error}
    for system in dict.fromkeys(row.system for row in rows):
        own = [row for row in rows if row.system == system]
        ran = [row for row in own if not row.error]

        def count(meets: Callable[[Row], bool], of: Sequence[Row] = ran) -> int:
            return sum(map(meets, of))

        lines.append(
            f"| {system} | {len(own)} | {len(own) - len(ran)} | {count(lambda row: row.equal is False)} | "
            f"{count(lambda row: row.last < LEVEL)} | {count(lambda row: row.late_compiles > 0)} | {sum(row.seconds for row in ran):.1f} | "
            f"{count(lambda row: row.seconds > others.get(row.program, float('inf')))} |"
        )
    return "\n".join(lines)
