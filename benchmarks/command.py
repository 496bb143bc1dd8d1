"""Tables of framejit beside eager and torch.compile, measured in one run, as markdown.

    framejit bench                                    # everything: 18 transformers, and each part below
    framejit bench models --train                     # forward + backward through aot_autograd
    framejit bench models --models hf:bert,syn:breaks --device cuda --size full
    framejit bench dispatch                           # microseconds of a call before any kernel runs
    framejit bench guards                             # checks a microsecond, and the guards' share of a hit
    framejit bench trace                              # milliseconds to capture an operator, sizes static and dynamic
    framejit bench compiling                          # seconds of a first call, by phase
    framejit bench graphs                             # graphs a model, share of its operators in them
    framejit bench launches                           # microseconds of one small kernel among many
    framejit bench kernels                            # fused kernels one by one, beside the memory's speed
    framejit bench memory                             # peak of a call, and what is left of a model that has gone
    framejit bench background                         # calls while candidates are tried in another thread
    framejit bench warm                               # first calls of a second process beside the first; not part of `all`
    framejit bench nested --device cuda               # batches of sequences of different lengths as one tensor; not part of `all`
    framejit bench distributed --device cuda          # training on several GPUs (--processes), or CPU processes; not part of `all`
    framejit bench programs                           # whole programs on third-party libraries; half an hour, not part of `all`

Tables go to stdout, progress to stderr; with --out to DIR/results.md, with plots beside it where matplotlib is installed. An interrupted
run prints what it measured until then.
"""
from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import signal
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import torch
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from ..options import config
from . import (
    background,
    compiling,
    dispatch,
    distributed,
    graphs,
    guards,
    kernels,
    launches,
    measure,
    memory,
    nested,
    plots,
    systems,
    tables,
    trace,
    warm,
    zoo,
)
from .programs import run as programs
from .programs.child import CLOCKS
from .programs.child import SYSTEMS as PROGRAM_SYSTEMS
from .programs.tables import Row, summary, table

DISPATCH = ("eager", "torch-eager", "framejit-eager")
PARTS = ("models", "dispatch", "guards", "trace", "compiling", "graphs", "launches", "kernels", "memory", "background")
ALONE = ("warm", "nested", "distributed", "programs")  # parts that are run by name only
FAMILIES = {"hf": "transformers", "timm": "timm", "tv": "torchvision"}  # and the packages that they need


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = __doc__
    parser.add_argument("part", nargs="?", default="all", choices=("all", *PARTS, *ALONE))
    parser.add_argument("--models", help="comma-separated; families hf, syn, timm, tv (default: those installed)")
    parser.add_argument("--systems", help=f"comma-separated, of: {', '.join(systems.SYSTEMS)}")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--size", default="small", choices=("small", "full"))
    parser.add_argument("--dtype", default="float32", choices=("float32", "float16", "bfloat16", "float64"))
    parser.add_argument("--train", action="store_true", help="forward and backward")
    parser.add_argument("--seconds", type=float, default=2, help="of steady state, a model and system")
    parser.add_argument("--limit", type=float, default=300, help="seconds after which one process is given up")
    parser.add_argument("--threads", type=int, help="of torch on the CPU; 0: its own choice (small models: 1)")
    parser.add_argument("--rounds", type=int, default=200, help="of the dispatch cases")
    parser.add_argument("--steps", type=int, default=50, help="of each program, and each training on several processes")
    parser.add_argument("--processes", type=int, help="of distributed training (default: 2, on a GPU one for each)")
    parser.add_argument("--clock", default="wall", choices=tuple(CLOCKS), help="of programs; processor: for a busy machine")
    parser.add_argument("--only", metavar="WORD", action="append", default=[], help="programs and distributed trainings whose names contain it; may be repeated")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write results.md and plots there too")


def complete_arguments(chosen: argparse.Namespace) -> str:
    """Fills in what was left open; returns what is wrong with the rest."""
    if chosen.threads is None:
        chosen.threads = 1 if chosen.size == "small" else 0
    chosen.models = chosen.models.split(",") if chosen.models else zoo.usual(installed_families())
    known: Iterable[str] = PROGRAM_SYSTEMS if chosen.part == "programs" else systems.SYSTEMS
    usual = known if chosen.part == "programs" else systems.DEFAULT_TRAINING if chosen.train else systems.DEFAULT
    names = chosen.systems.split(",") if chosen.systems else list(usual)
    unknown = [name for name in names if name not in known]
    chosen.systems = ("eager", *(name for name in names if name != "eager"))
    if unknown:
        return f"unknown systems {unknown}; known ones: {', '.join(known)}"
    if chosen.part == "programs" and not programs.names_with(chosen.only):
        return f"no program's name contains {' or '.join(chosen.only)}; known ones: {'; '.join(programs.names_with())}"
    os.environ["FRAMEJIT_STORE"] = "0"  # compiles are measured; `warm` and `programs` store entries in folders of their own
    config.store = False
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # processes that are forked could not use a driver that was looked at here
    if chosen.device == "cuda" and not torch.cuda.is_available():
        return "--device cuda: no CUDA device is usable here (framejit doctor says more)"
    return ""


def installed_families() -> set[str]:
    """Families of models that can be built here."""
    return {"syn", *(family for family, package in FAMILIES.items() if importlib.util.find_spec(package) is not None)}


def run(chosen: argparse.Namespace) -> int:
    """Returns the exit code: 1 if a system failed on a model, 2 for arguments that make no sense, 130 if it was interrupted."""
    wrong = complete_arguments(chosen)
    if wrong:
        print(f"framejit bench: {wrong}", file=sys.stderr)
        return 2
    device = f"{torch.get_num_threads()} of {platform.machine()}'s threads"
    if chosen.device == "cuda":
        device = measure.in_child(60, torch.cuda.get_device_name)
    versions = f"{platform.machine()}, Python {platform.python_version()}, torch {torch.__version__}, {device}"
    texts = [f"{versions}; {chosen.size}, {chosen.dtype}, {'training' if chosen.train else 'inference'}"]
    pictures: list[plots.Picture] = []
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    failed = False
    chosen.interrupted = False
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        for part in PARTS if chosen.part == "all" else (chosen.part,):
            new_texts, new_pictures, bad = RUN[part](chosen, progress)
            texts += new_texts
            pictures += new_pictures
            failed = failed or bad
            if chosen.interrupted:
                texts.append(f"Interrupted in `{part}`: what was not measured is missing.")
                break
    if chosen.out:
        texts += plots.write(pictures, chosen.out)
        chosen.out.mkdir(parents=True, exist_ok=True)
        (chosen.out / "results.md").write_text("\n\n".join(texts) + "\n")
    print("\n\n".join(texts))
    return 130 if chosen.interrupted else 1 if failed else 0


PartResult = tuple[list[str], list["plots.Picture"], bool]  # tables, plots, whether something failed
Say = Callable[[str], None]  # shows what is done now
Found = TypeVar("Found")


def plan_of(chosen: argparse.Namespace, train: bool) -> measure.Plan:
    """What the parts about models measure."""
    size = (chosen.size, chosen.device, chosen.dtype)
    if any(name.startswith("hf:") for name in chosen.models):
        import transformers.models.auto.modeling_auto  # noqa: F401, PLC0415 - once, before the forks
    return measure.Plan(chosen.systems, *size, train, chosen.seconds, chosen.limit, chosen.threads)


def measure_each(chosen: argparse.Namespace, progress: Progress, names: Iterable[str], measure_one: Callable[[str, Say], Found]) -> dict[str, Found]:
    """By name, what `measure_one` finds; after an interrupt by the user, for the names before."""
    found: dict[str, Found] = {}
    left = [] if chosen.interrupted else list(names)
    bar = progress.add_task("", total=len(left))

    def say(text: str) -> None:
        progress.update(bar, description=text)

    for name in left:
        say(name)
        try:
            found[name] = measure_one(name, say)
        except KeyboardInterrupt:
            chosen.interrupted = True
            break
        progress.advance(bar)
    return found


def each_model(
    chosen: argparse.Namespace, progress: Progress, measure_one: Callable[[measure.Plan, str], dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """By model: what a part measures of it, inference."""
    plan = plan_of(chosen, False)
    return measure_each(chosen, progress, chosen.models, lambda name, say: measure_one(plan, name))


def run_models(chosen: argparse.Namespace, progress: Progress) -> PartResult:
    plan = plan_of(chosen, chosen.train)
    models = measure_each(chosen, progress, chosen.models, lambda name, say: measure.measure(plan, name, say))
    failed = any(result.failure for row in models.values() for result in row.values())
    texts = [tables.models_table(models, chosen.systems), tables.summary_table(models, chosen.systems)]
    return texts, [plots.speed_ups(models, chosen.systems), plots.first_calls(models, chosen.systems)], failed


def run_trace(chosen: argparse.Namespace, progress: Progress) -> PartResult:
    return [tables.trace_table(each_model(chosen, progress, trace.measure_model))], [], False


def run_compiling(chosen: argparse.Namespace, progress: Progress) -> PartResult:
    found = each_model(chosen, progress, compiling.measure_model)
    return [tables.phases_table(found)], [plots.phases(found)], False


def run_warm(chosen: argparse.Namespace, progress: Progress) -> PartResult:
    plan = plan_of(chosen, chosen.train)
    found = measure_each(chosen, progress, chosen.models, lambda name, say: warm.measure_model(plan, name))
    return [tables.warm_table(found)], [], False


def run_graphs(chosen: argparse.Namespace, progress: Progress) -> PartResult:
    return [tables.graphs_table(each_model(chosen, progress, graphs.measure_model))], [], False


def run_launches(chosen: argparse.Namespace, progress: Progress) -> PartResult:
    found = measure_each(chosen, progress, ["launches"], lambda name, say: launches.measure_all(chosen.device, chosen.limit))
    return [tables.launches_table(one) for one in found.values()], [], False


def run_memory(chosen: argparse.Namespace, progress: Progress) -> PartResult:
    return [tables.memory_table(each_model(chosen, progress, memory.measure_model))], [], False


def run_background(chosen: argparse.Namespace, progress: Progress) -> PartResult:
    return [tables.background_table(each_model(chosen, progress, background.measure_model))], [], False


def run_dispatch(chosen: argparse.Namespace, progress: Progress) -> PartResult:
    by_name = {case.__name__: case for case in dispatch.CASES}

    def measure_one(name: str, say: Say) -> dict[str, Any]:
        result = measure.in_child(chosen.limit, dispatch.measure_case, by_name[name], DISPATCH, chosen.rounds)
        return result if isinstance(result, dict) else {"eager": float("nan"), **dict.fromkeys(DISPATCH[1:], result)}

    cases = measure_each(chosen, progress, by_name, measure_one)
    return [tables.dispatch_table(cases, DISPATCH)], [plots.dispatch(cases, DISPATCH)], False


def run_kernels(chosen: argparse.Namespace, progress: Progress) -> PartResult:
    found = measure_each(
        chosen, progress, kernels.CASES, lambda name, say: measure.in_child(chosen.limit, kernels.measure_case, name, chosen.device)
    )
    return [tables.kernels_table(found, kernels.SYSTEMS)], [], False


def run_nested(chosen: argparse.Namespace, progress: Progress) -> PartResult:
    found = measure_each(
        chosen, progress, nested.CASES,
        lambda name, say: measure.in_child(chosen.limit, nested.measure_case, name, chosen.device, chosen.seconds),
    )  # fmt: skip
    rows = {name: dict.fromkeys(nested.SYSTEMS, row) if isinstance(row, str) else row for name, row in found.items()}
    return [tables.nested_table(rows)], [], False


def run_distributed(chosen: argparse.Namespace, progress: Progress) -> PartResult:
    processes = chosen.processes or (measure.in_child(60, torch.cuda.device_count) if chosen.device == "cuda" else 2)
    names = [name for name in distributed.cases(processes) if not chosen.only or any(word in name for word in chosen.only)]
    plan = (chosen.systems, processes, chosen.device, chosen.dtype, chosen.size, chosen.steps, chosen.limit)
    found = measure_each(chosen, progress, names, lambda name, say: distributed.measure_case(name, *plan))
    bad = any(isinstance(cell, str) for row in found.values() for cell in row.values())
    return [f"{processes} processes", tables.distributed_table(found)], [], bad


def run_programs(chosen: argparse.Namespace, progress: Progress) -> PartResult:
    def measure_one(name: str, say: Say) -> list[Row]:
        return programs.run_program(name, chosen.systems, chosen.steps, chosen.limit, chosen.clock, chosen.device)

    names = programs.names_with(chosen.only)
    missing = programs.missing_packages(names)
    found = measure_each(chosen, progress, [name for name in names if name not in missing], measure_one)
    rows = [row for under in found.values() for row in under]
    left_out = [f"Left out: {name}, as {' and '.join(packages)} cannot be imported." for name, packages in missing.items()]
    return [table(rows), summary(rows), *left_out], [], any(row.error or row.equal is False for row in rows)


def run_guards(chosen: argparse.Namespace, progress: Progress) -> PartResult:
    counts = measure_each(chosen, progress, ["guards"], lambda name, say: measure.in_child(chosen.limit, guards.measure_counts))
    hits = measure_each(chosen, progress, guards.MODELS, lambda name, say: measure.in_child(chosen.limit, guards.measure_hit, name))
    growth = measure_each(chosen, progress, guards.GROWING, lambda name, say: measure.in_child(chosen.limit, guards.measure_growth, name))
    of_models = [tables.hits_table(hits, tuple(guards.WAYS)), tables.growth_table(growth, guards.SIZES)]
    return [*map(tables.guards_table, counts.values()), *of_models], [], False


RUN: dict[str, Callable[[argparse.Namespace, Progress], PartResult]] = {
    "models": run_models, "dispatch": run_dispatch, "guards": run_guards, "trace": run_trace, "compiling": run_compiling,
    "graphs": run_graphs, "launches": run_launches, "kernels": run_kernels, "memory": run_memory, "background": run_background,
    "warm": run_warm, "nested": run_nested, "distributed": run_distributed, "programs": run_programs,
}  # fmt: skip
