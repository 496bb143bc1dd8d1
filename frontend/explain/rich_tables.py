"""A report as rich tables, for terminals and notebooks."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from . import text_report
from .report_data import ReportData
from .source_text import relative_place

BAR = 40  # characters


def renderable(report: ReportData) -> RenderableType:
    parts: list[RenderableType] = [Text(text_report.summary(report), style="bold")]
    parts += [Text(line) for line in text_report.time_lines(report)]
    if report.times.parts:
        parts.append(phases(report))
    if report.captures:
        parts.append(captures(report))
    if report.breaks:
        parts.append(breaks(report))
    parts += [Text(line) for line in text_report.other_lines(report)]
    return Group(*parts)


def phases(report: ReportData) -> Table:
    """The time that each phase took, the longest first."""
    made = Table(
        "phase",
        Column("time", justify="right"),
        Column("share", justify="right"),
        "",
        title="time",
        title_justify="left",
    )
    known = report.times.parts
    total = sum(known.values()) or 1.0
    for name, seconds in sorted(known.items(), key=lambda pair: -pair[1]):
        share = seconds / total
        made.add_row(
            name,
            text_report.duration(seconds),
            f"{share:.0%}",
            Text("█" * round(share * BAR), style="cyan"),
        )
    return made


def captures(report: ReportData) -> Table:
    """What was captured: a row a graph."""
    made = Table(
        "#", Column("captured", overflow="fold"), "runs on", title="captures", title_justify="left"
    )
    for name in ("ops", "kernels", "guards", "compiled in", "runs"):
        made.add_column(name, justify="right")
    for number, item in enumerate(report.captures, 1):
        captured = Text(f"{item.function}\n") + Text(relative_place(item.where), style="dim")
        kernels = str(sum(len(one.kernels) for one in item.kernels) or "")
        guards = str(len(item.checks)) + (
            "" if item.check_seconds is None else f"\n{text_report.duration(item.check_seconds)}"
        )
        runs = (
            ""
            if item.runs is None
            else f"{item.runs} ×\n{text_report.duration(item.run_seconds or 0.0)}"
        )
        compiled = text_report.duration(sum(item.seconds.values()))
        made.add_row(
            str(number), captured, item.backend, str(item.ops), kernels, guards, compiled, runs
        )
    return made


def breaks(report: ReportData) -> Table:
    """The graph breaks: where, why, and what to do."""
    made = Table(
        "#",
        Column("where", overflow="fold"),
        "why",
        title="breaks",
        title_justify="left",
        show_lines=True,
    )
    for number, item in enumerate(report.breaks, 1):
        where = Text(f"{relative_place(item.where)}\n") + Text(item.source, style="cyan")
        if item.caret:
            where += Text(f"\n{item.caret}", style="bold red")
        why = Text(f"{item.reason} [{item.id}]\n")
        if text_report.cost(item):
            why += Text(f"{text_report.cost(item)}\n", style="yellow")
        made.add_row(
            str(number),
            where,
            why + Text(f"hint: {item.hint}", style="green") + Text(f"\n{item.page}", style="dim"),
        )
    return made
