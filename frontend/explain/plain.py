"""A report as plain text, for logs and for people without colours."""
from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .report import Report

GUARDS_SHOWN = 8  # of each capture; all are in `report.captures[i].guards`


def text(report: Report) -> str:
    return "\n".join((summary(report), *capture_lines(report), *break_lines(report), *other_lines(report)))


def summary(report: Report) -> str:
    """One line: how much was captured, and the time that took."""
    counts = ", ".join((count(len(report.graphs), "graph"), count(report.ops, "op"), count(len(report.breaks), "break")))
    phases = ", ".join(f"{phase} {spent:.3f}" for phase, spent in report.seconds.items())
    return f"{counts}; {sum(report.seconds.values()):.3f} s" + (f" ({phases})" if phases else "")


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def capture_lines(report: Report) -> Iterator[str]:
    for number, capture in enumerate(report.captures, 1):
        counts = f"{count(capture.ops, 'op')}, {count(len(capture.guards), 'guard')}"
        yield f"capture {number}: {capture.function} from {capture.where}: {counts}"
        yield from (f"    {line}" for line in capture.guards[:GUARDS_SHOWN])
        if len(capture.guards) > GUARDS_SHOWN:
            yield f"    ... and {len(capture.guards) - GUARDS_SHOWN} more in report.captures[{number - 1}].guards"


def break_lines(report: Report) -> Iterator[str]:
    for number, item in enumerate(report.breaks, 1):
        times = f" ({item.times} times)" if item.times > 1 else ""
        yield f"break {number}: {item.reason} [{item.id}]{times}"
        yield f"    {item.where}: {item.source}"
        yield from (f"    called from {where}" for where in item.chain[1:])
        yield f"    hint: {item.hint}"


def other_lines(report: Report) -> Iterator[str]:
    for choice in report.choices:
        yield f"the graph of {choice.function} from {choice.where} {choice.sentence}"
    for note in report.notes:
        yield f"the graph of {note.function} from {note.where}: {note.text}"
    for skipped in report.skipped:
        yield f"left to Python: {skipped.function} at {skipped.where}: {skipped.reason}"
    for miss in report.misses:
        yield f"compiled again: {miss.function} at {miss.where}:"
        yield from (f"    {failure}" for failure in miss.failures)
