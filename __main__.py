"""`framejit COMMAND` and `python -m framejit COMMAND`."""
from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from .cli import explain, tune

COMMANDS = {"explain": explain, "tune": tune}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["explain"]:  # the program's own arguments look like ours
        words[1:] = explain.sorted_out(words[1:])
    parser = argparse.ArgumentParser(prog="framejit", description="A bytecode-level frame JIT for PyTorch")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, module in COMMANDS.items():
        summary = (module.__doc__ or "").strip()
        module.arguments(commands.add_parser(name, help=summary, description=summary))
    args = parser.parse_args(words)
    return COMMANDS[args.command].run(args)


if __name__ == "__main__":
    sys.exit(main())
