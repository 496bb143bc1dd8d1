"""Run a program and report what was compiled, graph breaks, their cost, and what to do."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from ..frontend.support import usable
from ..options import config
from . import program
from .program import MAIN, ProgramError, UserScript

USAGE, FINDINGS = 2, 3  # exit statuses beside 0 and the program's own
EPILOG = f"""\
Options may come before or after the program's name; arguments after "--" go to the
program.

exit status:
  0  the program succeeded, and nothing was found that --fail-on-break or --max-recompiles forbid
  {USAGE}  wrong usage: an unknown option, no such script, module or function
  {FINDINGS}  the program succeeded, but there was a break, or too many recompiles
  else the program's own status: 1 after an exception, n after sys.exit(n);
       the report is still written"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.usage = "framejit explain [options] (script.py | -m module) [args ...]"
    parser.epilog = EPILOG
    parser.allow_abbrev = False
    options(parser)
    parser.add_argument(
        "program", nargs="*", metavar="script.py [args ...]", help="the program and its arguments"
    )


def options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `framejit explain`."""
    parser.add_argument(
        "-m", dest="module", metavar="MODULE", help="run a module, as python -m does"
    )
    parser.add_argument("--json", metavar="FILE", help="write the report as JSON")
    parser.add_argument("--html", metavar="FILE", help="write the report as one HTML page")
    parser.add_argument("--quiet", action="store_true", help="print no report")
    parser.add_argument(
        "--fail-on-break",
        action="store_true",
        help=f"exit with {FINDINGS} if there was a graph break",
    )
    parser.add_argument(
        "--max-recompiles",
        type=non_negative_int,
        metavar="N",
        help=f"exit with {FINDINGS} after more recompiles than N",
    )
    parser.add_argument(
        "--function",
        action="append",
        default=[],
        metavar="PKG.MOD:FN",
        type=function_name,
        help="compile this function as if it were decorated (__main__:fn: a function of the "
        "program itself); may be repeated",
    )


def non_negative_int(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of recompiles, 0 or more")
    return int(text)


def function_name(text: str) -> str:
    where, colon, name = text.partition(":")
    if not colon or not all(part.isidentifier() for part in (*where.split("."), *name.split("."))):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not of the form pkg.mod:fn or pkg.mod:Class.method"
        )
    return text


def our_options_first(argv: Sequence[str]) -> list[str]:
    """Arguments with ours first, then "--", then the program's: options of ours may follow the
    program's name, up to "--"."""
    reader = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    options(reader)
    valued = {
        name for action in reader._actions if action.nargs != 0 for name in action.option_strings
    }
    flags = {
        name for action in reader._actions if action.nargs == 0 for name in action.option_strings
    } | {"-h", "--help"}
    ours: list[str] = []
    theirs: list[str] = []
    rest = list(argv)
    started = False  # the program is named
    while rest:
        word = rest.pop(0)
        if word == "--":
            theirs += rest
            break
        name = word.partition("=")[0]
        if word in flags and not (started and word in ("-h", "--help")):
            ours.append(word)
        elif name in valued and not (started and name == "-m"):
            ours += [word] if "=" in word else [word, *rest[:1]]
            rest = rest if "=" in word else rest[1:]
            started = started or name == "-m"
        elif word.startswith("-") and not started:
            ours.append(word)  # unknown: argparse says so
        else:
            started = True
            theirs.append(word)
    return [*ours, "--", *theirs]


def run(args: argparse.Namespace) -> int:
    """Returns the exit status."""
    if not usable():
        return usage_error(
            "framejit runs everything in eager under this Python and torch, so there is nothing "
            "to explain; see framejit doctor"
        )
    if not args.module and not args.program:
        return usage_error("a script is needed, or -m and a module")
    for path in filter(None, (args.json, args.html)):
        if not Path(path).absolute().parent.is_dir():
            return usage_error(
                f"cannot write {path}: there is no folder {Path(path).absolute().parent}"
            )
    try:
        return explain(args)
    except ProgramError as error:
        return usage_error(str(error))


def usage_error(message: str) -> int:
    print(f"framejit explain: {message}", file=sys.stderr)
    return USAGE


def explain(args: argparse.Namespace) -> int:
    """Runs a script or module under observation, writes the reports, and returns the exit
    status."""
    observation = importlib.import_module("..frontend.observation", __package__).Observation()
    before = list(sys.path)
    try:
        found = find_script(args)
        sys.path[:1] = [found.folder]
        # says what is wrong with it
        found.code(
            named_in_it := [
                name for where, name in map(split_target, args.function) if where == MAIN
            ]
        )
        # entries from disk would not tell their graphs and kernels
        with observation, config.patch(store=False):
            for target in args.function:
                if split_target(target)[0] != MAIN:
                    program.compile_in_place(target)
            status = found.run(named_in_it)
    finally:
        sys.path[:] = before
    report = observation.report(found.name)
    write_reports(report, args)
    return status or exit_status(report, args)


def find_script(args: argparse.Namespace) -> UserScript:
    if args.module:
        sys.path[:1] = [os.getcwd()]
        return program.module(args.module, args.program)
    return program.script(args.program[0], args.program[1:])


def split_target(target: str) -> tuple[str, str]:
    where, _, name = target.partition(":")
    return where, name


def write_reports(report: Any, args: argparse.Namespace) -> None:
    """Writes the requested reports."""
    sys.stdout.flush()
    if args.html:
        report.to_html(args.html)
    if args.json:
        report.to_json(args.json)
    if not args.quiet:
        console = Console()
        if console.is_terminal:
            console.print(report)
        else:
            print(report)
    if not report.seen:
        print(
            "framejit explain: nothing was compiled: decorate a function with framejit.compile, "
            "or say --function",
            file=sys.stderr,
        )


def exit_status(report: Any, args: argparse.Namespace) -> int:
    """The exit status that the report asks for."""
    found = []
    if args.fail_on_break and report.breaks:
        found.append(f"{len(report.breaks)} graph breaks (--fail-on-break)")
    if args.max_recompiles is not None and len(report.misses) > args.max_recompiles:
        found.append(f"{len(report.misses)} recompiles (--max-recompiles {args.max_recompiles})")
    if found:
        print(f"framejit explain: {' and '.join(found)}", file=sys.stderr)
    return FINDINGS if found else 0
