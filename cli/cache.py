"""Show what framejit stores on disk, or delete it."""

from __future__ import annotations

import argparse
import shutil
import sqlite3
import sys
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.filesize import decimal
from rich.table import Column, Table

from ..backends.autotune.decisions import FILE, Decisions
from ..backends.autotune.repro import FOLDER
from ..frontend.runtime.stored.files import KIND as ENTRIES
from ..frontend.self_check import FOLDER as SELF_CHECK
from ..options import config

# By kind: what it is, and the names of its folders and files.
KINDS = {
    "kernels": (
        "compiled kernels, made again when they are needed",
        ("c", "triton", "triton_text"),
    ),
    "entries": (
        "compiled code for later processes (config.store); without it code is captured again",
        (ENTRIES,),
    ),
    "decisions": (
        "which backend each graph runs on; without it graphs are measured again",
        (FILE,),
    ),
    "self-check": (
        "which features work with a torch or Python that is newer than framejit",
        (SELF_CHECK,),
    ),
    "repros": ("scripts that reproduce failures of backends", (FOLDER,)),
}


@dataclass(frozen=True)
class StoredAmount:
    """The amount of one kind. `items`: files, or decisions."""

    kind: str
    items: int
    size: int  # bytes


def arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--show", action="store_true", help="list what there is, by kind (the default)"
    )
    what.add_argument(
        "--clear",
        nargs="*",
        metavar="KIND",
        choices=KINDS,
        help=f"delete these kinds, or everything: {', '.join(KINDS)}",
    )


def run(args: argparse.Namespace) -> int:
    """Returns the exit code."""
    try:
        if args.clear is not None:
            clear(args.clear or list(KINDS))
        else:
            show()
    except (OSError, sqlite3.Error) as error:
        print(f"framejit cache: {config.cache_dir}: {error}", file=sys.stderr)
        return 1
    return 0


def paths(kind: str) -> list[Path]:
    return [path for name in KINDS[kind][1] if (path := config.cache_dir / name).exists()]


def measure_kind(kind: str) -> StoredAmount:
    """Raises OSError or sqlite3.Error."""
    files = [
        file
        for path in paths(kind)
        for file in (path.rglob("*") if path.is_dir() else [path])
        if file.is_file()
    ]
    items = len(Decisions(config.cache_dir).all()) if kind == "decisions" else len(files)
    return StoredAmount(kind, items, sum(file.stat().st_size for file in files))


def show() -> None:
    """Prints what the cache folder holds, a line a kind."""
    table = Table(
        "kind",
        Column("items", justify="right"),
        Column("size", justify="right"),
        "what",
        title=str(config.cache_dir),
    )
    found = list(map(measure_kind, KINDS))
    for one in found:
        table.add_row(one.kind, str(one.items), decimal(one.size), KINDS[one.kind][0])
    table.add_section()
    table.add_row("all", "", decimal(sum(one.size for one in found)), "")
    console = Console()
    if not console.is_terminal:
        console.width = 120
    console.print(table)


def clear(kinds: list[str]) -> None:
    """Deletes kinds. Running programs keep what they have loaded."""
    for kind in kinds:
        there = measure_kind(kind)
        if kind == "decisions":  # other programs may have the file open
            Decisions(config.cache_dir).clear()
        else:
            for path in paths(kind):
                shutil.rmtree(path)
        print(f"{kind}: {there.items} deleted ({decimal(there.size)})")
