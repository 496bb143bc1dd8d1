"""`framejit COMMAND` and `python -m framejit COMMAND`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from . import __version__
from .cli import artifact, bench, cache, doctor, explain, minify, tune

COMMANDS = {
    "artifact": artifact, "bench": bench, "cache": cache, "doctor": doctor, "explain": explain,
    "minify": minify, "tune": tune,
}  # fmt: skip


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    made = argparse.ArgumentParser(
        prog="framejit", description="A bytecode-level frame JIT for PyTorch"
    )
    made.add_argument("--version", action="version", version=f"framejit {__version__}")
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, module in COMMANDS.items():
        summary = (module.__doc__ or "").strip()
        module.arguments(commands.add_parser(name, help=summary, description=summary))
    return made


def parse_command_line(words: Sequence[str]) -> argparse.Namespace:
    """What a command line says. Raises SystemExit as argparse does."""
    words = list(words)
    if words[:1] == ["explain"]:  # the program's own arguments look like ours
        words[1:] = explain.our_options_first(words[1:])
    return parser().parse_args(words)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code."""
    args = parse_command_line(sys.argv[1:] if argv is None else argv)
    try:
        return COMMANDS[args.command].run(args)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # what reads our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.exit(main())
