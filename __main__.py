"""`framejit COMMAND` and `python -m framejit COMMAND`."""
from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from . import __version__
from .cli import bench, cache, doctor, minify, tune

COMMANDS = {"bench": bench, "cache": cache, "doctor": doctor, "minify": minify, "tune": tune}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code."""
    parser = argparse.ArgumentParser(prog="framejit", description="A bytecode-level frame JIT for PyTorch")
    parser.add_argument("--version", action="version", version=f"framejit {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, module in COMMANDS.items():
        summary = (module.__doc__ or "").strip()
        module.arguments(commands.add_parser(name, help=summary, description=summary))
    args = parser.parse_args(argv)
    try:
        return COMMANDS[args.command].run(args)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # what reads our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.exit(main())
