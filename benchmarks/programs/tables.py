"""What was measured of programs, as markdown: a line a program, and how many programs meet what is promised."""
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


# of a row, with what stands above it; eager has none but the seconds
FIGURES: dict[str, Callable[[Row], str]] = {
    "seconds": lambda row: f"{row.seconds:.2f}",
    "equal": lambda row: "yes" if row.equal else "**no**",
    "speed of further steps (median; eager: 1)": lambda row: f"{row.last:.2f}",
    "compiles": lambda row: str(row.compiles),
    "in the last 20 steps": lambda row: str(row.late_compiles),
    "lines of the report": lambda row: str(row.report),
}


def table(rows: Sequence[Row]) -> str:
    """A line for each program, with the figures of all systems side by side; below it, why programs failed."""
    systems = list(dict.fromkeys(row.system for row in rows))
    shown = {what: systems if what == "seconds" else [one for one in systems if one != "eager"] for what in FIGURES}
    lines = [
        "| program | " + " | ".join(f"{what}: {', '.join(names)}" for what, names in shown.items()) + " |",
        "|--" * (len(shown) + 1) + "|",
    ]
    for program in dict.fromkeys(row.program for row in rows):
        own = {row.system: row for row in rows if row.program == program}
        cells = [
            ", ".join("failed" if own[name].error else FIGURES[what](own[name]) for name in names if name in own)
            for what, names in shown.items()
        ]
        lines.append(f"| {program} | {' | '.join(cells)} |")
    failed = [f"{row.program}, {row.system}: failed: {row.error.strip().splitlines()[-1][:80]}" for row in rows if row.error]
    return "\n".join([*lines, *([""] if failed else []), *failed])


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
