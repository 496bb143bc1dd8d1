"""A report as rich tables, for terminals and notebooks."""
from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from . import plain

if TYPE_CHECKING:
    from .report import Report


def renderable(report: Report) -> RenderableType:
    parts: list[RenderableType] = [Text(plain.summary(report), style="bold")]
    if report.captures:
        parts.append(captures(report))
    if report.breaks:
        parts.append(breaks(report))
    parts += [Text(line) for line in plain.other_lines(report)]
    return Group(*parts)


def captures(report: Report) -> Table:
    made = Table("#", "captured", Column("from", overflow="fold"), title="captures", title_justify="left")
    for name in ("ops", "guards", "ms"):
        made.add_column(name, justify="right")
    for number, item in enumerate(report.captures, 1):
        cells = (item.function, near(item.where), item.ops, len(item.guards), f"{sum(item.seconds.values()) * 1e3:.1f}")
        made.add_row(str(number), *(Text(str(cell)) for cell in cells))
    return made


def breaks(report: Report) -> Table:
    made = Table("#", Column("where", overflow="fold"), "why", title="breaks", title_justify="left", show_lines=True)
    for number, item in enumerate(report.breaks, 1):
        where = Text(f"{near(item.where)}\n") + Text(item.source, style="cyan")
        why = Text(f"{item.reason} [{item.id}]\n") + Text(f"hint: {item.hint}", style="green")
        made.add_row(str(number), where, why)
    return made


def near(where: str) -> str:
    """file:line, from the current folder where the file lies in it: tables are narrow."""
    here = os.getcwd() + os.sep
    return where.removeprefix(here)
