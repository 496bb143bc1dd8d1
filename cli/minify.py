"""Shrink a graph that a backend gets wrong: the smallest script that still fails in the same
way."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console

from ..backends.autotune.minify import Minifier, NoReproError
from ..backends.autotune.repro import FOLDER
from ..options import config

MADE = ".min.py"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `framejit minify`."""
    what = (
        "a script that the autotuner wrote, or a folder of them (default: those in the cache "
        "folder)"
    )
    parser.add_argument("repro", type=Path, nargs="?", help=what)
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="folder for the smaller scripts (default: beside each)",
    )
    parser.add_argument(
        "--limit",
        type=float,
        default=60,
        metavar="S",
        help="seconds after which a run counts as hanging (default: 60)",
    )


def run(args: argparse.Namespace) -> int:
    """Returns the exit code: 1 if something could not be made smaller."""
    asked = args.repro or config.cache_dir / FOLDER
    found = [asked]
    if asked.is_dir() or args.repro is None:
        found = sorted(path for path in asked.glob("*.py") if not path.name.endswith(MADE))
    if not found:
        print(f"framejit minify: no scripts in {asked}: nothing was struck out", file=sys.stderr)
        return 1
    return max(minify(path, args.out or path.parent, args.limit) for path in found)


def minify(path: Path, folder: Path, limit: float) -> int:
    """Shrinks one script. Returns the exit code."""
    # modules are found as the script finds them
    sys.path[:0] = ["", str(path.resolve().parent)]
    console = Console(stderr=True)
    try:
        with console.status(f"running {path.name}") as status:
            minifier = Minifier(path.read_text(), limit, status.update)
            before = minifier.best
            after = minifier.minify()
        target = folder / (path.stem + MADE)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(f'"""{minifier.verdict.splitlines()[0]}"""\n{after.text}')
    except (NoReproError, OSError) as error:
        print(f"framejit minify: {path}: {error}", file=sys.stderr)
        return 1
    finally:
        del sys.path[:2]
    print(
        f"{target}: {len(before.lines)} operations to {len(after.lines)}, {len(before.inputs)} "
        f"inputs to {len(after.inputs)}"
    )
    print(f"it {minifier.verdict.splitlines()[0]}")
    return 0
