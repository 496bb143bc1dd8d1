"""python -m benchmarks: the tables of framejit beside eager and torch.compile, measured in one run, as markdown.

    python -m benchmarks                              # 18 transformers, and the cost of a call
    python -m benchmarks models --train               # forward + backward through aot_autograd
    python -m benchmarks models --models hf:bert,syn:breaks --device cuda --size full
    python -m benchmarks dispatch
    python -m benchmarks guards                       # checks a microsecond, and the guards' share of a hit
    python -m benchmarks trace                        # milliseconds to capture an operator, sizes static and dynamic

Tables go to stdout (or --out), progress to stderr.
"""
from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from . import dispatch, guards, measure, systems, tables, trace, zoo

DISPATCH = ("eager", "torch-eager", "framejit-eager")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", default="all", choices=("all", "models", "dispatch", "guards", "trace"))
    parser.add_argument("--models", default=",".join(zoo.ALL_TRANSFORMERS), help="comma-separated; families hf, syn, timm, tv")
    parser.add_argument("--systems", help=f"comma-separated, of: {', '.join(systems.SYSTEMS)}")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--size", default="small", choices=("small", "full"))
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--train", action="store_true", help="forward and backward")
    parser.add_argument("--seconds", type=float, default=2, help="of steady state, a model and system")
    parser.add_argument("--limit", type=float, default=300, help="seconds after which one process is given up")
    parser.add_argument("--threads", type=int, help="of torch on the CPU; 0: its own choice (small models: 1)")
    parser.add_argument("--rounds", type=int, default=200, help="of the dispatch cases")
    parser.add_argument("--out", type=Path, help="write the tables to this file too")
    chosen = parser.parse_args()
    if chosen.threads is None:
        chosen.threads = 1 if chosen.size == "small" else 0
    names = chosen.systems.split(",") if chosen.systems else systems.DEFAULT_TRAINING if chosen.train else systems.DEFAULT
    unknown = [name for name in names if name not in systems.SYSTEMS]
    if unknown:
        parser.error(f"unknown systems {unknown}; known ones: {', '.join(systems.SYSTEMS)}")
    chosen.systems = ("eager", *(name for name in names if name != "eager"))
    return chosen


def main() -> int:
    chosen = arguments()
    versions = f"{platform.machine()}, Python {platform.python_version()}, torch {torch.__version__}"
    parts = [f"{versions}, {chosen.device}, {chosen.size}, {chosen.dtype}, {'training' if chosen.train else 'inference'}"]
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    failed = False
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        if chosen.part in ("all", "models"):
            models = run_models(chosen, progress)
            failed = any(result.failure for row in models.values() for result in row.values())
            parts += [tables.models_table(models, chosen.systems), tables.summary_table(models, chosen.systems)]
        if chosen.part in ("all", "dispatch"):
            parts.append(tables.dispatch_table(run_dispatch(chosen, progress), DISPATCH))
        if chosen.part in ("all", "guards"):
            parts += run_guards(chosen, progress)
        if chosen.part in ("all", "trace"):
            parts.append(tables.trace_table(run_trace(chosen, progress)))
    text = "\n\n".join(parts)
    print(text)
    if chosen.out:
        chosen.out.write_text(text + "\n")
    return 1 if failed else 0


def run_models(chosen: argparse.Namespace, progress: Progress) -> dict[str, dict[str, measure.Result]]:
    size = (chosen.size, chosen.device, chosen.dtype)
    plan = measure.Plan(chosen.systems, *size, chosen.train, chosen.seconds, chosen.limit, chosen.threads)
    names = chosen.models.split(",")
    if any(name.startswith("hf:") for name in names):
        import transformers.models.auto.modeling_auto  # noqa: F401, PLC0415 - once, before the forks
    say, advance = reporter(progress, len(names))
    models = {}
    for name in names:
        models[name] = measure.measure(plan, name, say)
        advance()
    return models


def run_trace(chosen: argparse.Namespace, progress: Progress) -> dict[str, Any]:
    plan = measure.Plan(chosen.systems, chosen.size, chosen.device, chosen.dtype, False, chosen.seconds, chosen.limit, chosen.threads)
    names = chosen.models.split(",")
    say, advance = reporter(progress, len(names))
    models = {}
    for name in names:
        say(f"trace: {name}")
        models[name] = trace.measure_model(plan, name)
        advance()
    return models


def run_dispatch(chosen: argparse.Namespace, progress: Progress) -> dict[str, Any]:
    say, advance = reporter(progress, len(dispatch.CASES))
    cases = {}
    for case in dispatch.CASES:
        say(f"dispatch: {case.__name__}")
        result = measure.in_child(chosen.limit, dispatch.measure_case, case, DISPATCH, chosen.rounds)
        cases[case.__name__] = result if isinstance(result, dict) else {"eager": float("nan"), **dict.fromkeys(DISPATCH[1:], result)}
        advance()
    return cases


def run_guards(chosen: argparse.Namespace, progress: Progress) -> list[str]:
    say, advance = reporter(progress, 1 + len(guards.MODELS))
    say("guards: how many")
    counts = measure.in_child(chosen.limit, guards.measure_counts)
    advance()
    hits = {}
    for name in guards.MODELS:
        say(f"guards: {name}")
        hits[name] = measure.in_child(chosen.limit, guards.measure_hit, name)
        advance()
    return [tables.guards_table(counts), tables.hits_table(hits, tuple(guards.WAYS))]


def reporter(progress: Progress, total: int) -> tuple[Callable[[str], None], Callable[[], None]]:
    """Two callables: one says what is done now, one moves the bar on."""
    task = progress.add_task("", total=total)
    return lambda text: progress.update(task, description=text), lambda: progress.advance(task)


if __name__ == "__main__":
    sys.exit(main())
