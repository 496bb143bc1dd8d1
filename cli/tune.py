"""Show the autotuner's decisions, or delete them."""

from __future__ import annotations

import argparse
import sqlite3
import sys
import time

from rich.console import Console
from rich.table import Column, Table

from ..backends.autotune.decisions import Decision, Decisions
from ..options import config


def arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--show", action="store_true", help="list the decisions, the latest first")
    what.add_argument(
        "--clear", action="store_true", help="forget them all: graphs are measured again"
    )


def run(args: argparse.Namespace) -> int:
    """Returns the exit code."""
    decisions = Decisions(config.cache_dir)
    try:
        if args.clear:
            print(f"{decisions.clear()} decisions forgotten ({decisions.path})")
        else:
            show(decisions.all())
    except (sqlite3.Error, OSError) as error:
        print(f"framejit tune: {decisions.path}: {error}", file=sys.stderr)
        return 1
    return 0


def show(found: list[Decision]) -> None:
    """Prints the autotuner's decisions, a row each."""
    wide = Column("inputs", overflow="fold"), Column("device", overflow="fold")
    table = Table("graph", *wide, "runs on", "ms a call", "why not others", "made")
    for one in found:
        times = "\n".join(f"{name} {spent * 1e3:.4g}" for name, spent in one.timings)
        out = "\n".join(f"{name}: {reason}" for name, reason in one.struck)
        shapes = one.shapes if len(one.shapes) <= 120 else one.shapes[:117] + "..."
        made = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.made))
        table.add_row(
            one.graph[:10], shapes, f"{one.device}\n{one.mode}", one.chosen, times, out, made
        )
    console = Console()
    if not console.is_terminal:
        console.width = 200
    console.print(table)
    console.print(f"{len(found)} decisions")
