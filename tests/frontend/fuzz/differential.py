"""Runs generated programs in eager and compiled: all that can be seen must be the same, and most tensor work captured.

A long run: `python tests/frontend/fuzz/differential.py --programs 10000 [--first SEED] [--backend aot_eager] [--dynamic]`; each difference
is written out as a program that can be run by itself.
"""
from __future__ import annotations

import argparse
import ast
import contextlib
import importlib.util
import io
import linecache
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import framejit
from torch.overrides import TorchFunctionMode

HERE = Path(__file__).parent


def load(name: str, path: Path) -> Any:
    """A module by its file, imported once under one name, for pytest and for the command line."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


programs = load("framejit_fuzz_programs", HERE / "programs.py")
harness = load("framejit_fuzz_harness", HERE.parent / "semantics" / "harness.py")
CHANGED = ("LOG", "COUNT")  # globals that programs change
NOT_OPERATIONS = ("__get__", "__set__", "__deepcopy__")  # attributes, and the copying of inputs


@dataclass
class Verdict:
    """What came of one program. `difference`: how compiled differs from eager; `ops`: tensor operations of the eager run,
    `captured`: those that ran in graphs."""

    source: str
    difference: str | None
    ops: int
    captured: int
    breaks: tuple[str, ...]
    raised: bool


class Operations(TorchFunctionMode):
    """Counts the torch functions called in eager."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += getattr(func, "__name__", "") not in NOT_OPERATIONS
        return func(*args, **(kwargs or {}))


def module_of(source: str, name: str) -> dict[str, Any]:
    """The namespace of a program; tracebacks find its lines."""
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    namespace: dict[str, Any] = {"__name__": "fuzzed"}
    exec(compile(source, name, "exec"), namespace)
    return namespace


def examine(source: str, random: Random, backend: str = "eager", dynamic: bool | None = None) -> Verdict:
    """Runs one program both ways: a first and a second call on fresh inputs, then two calls on the same."""
    name = f"<fuzz {abs(hash(source))}>"
    namespace = module_of(source, name)
    program, box = namespace["program"], namespace["Box"]
    arguments = programs.inputs(namespace, random)
    world = harness.World(program, arguments, {}, CHANGED)
    counter, seen = harness.Counting(), []
    harness._rests.clear()
    try:
        with Operations() as operations, contextlib.redirect_stdout(io.StringIO()):
            ran = harness.run(program, world, 1, False)
        box.limit = 3
        eager = harness.run(program, world, 1, False)
        limits = [box.limit]
        box.limit = 3
        twice = harness.run(program, world, 2, False)
        limits.append(box.limit)
        with framejit.config.patch(strict=True, recompile_limit=64):
            handle = framejit.compile(program, backend=counter if backend == "eager" else backend, dynamic=dynamic)
        handle.framejit.cache.sinks.append(seen.append)
        difference = None
        try:
            for what, expected, calls in (("first call", eager, 1), ("second call", eager, 1), ("two calls", twice, 2)):
                box.limit = 3
                harness.compare(expected, harness.run(handle, world, calls, False), what, True)
                assert box.limit == limits[calls - 1], f"{what}: Box.limit is {box.limit}, in eager {limits[calls - 1]}"
                if what == "first call":
                    captured = counter.ran
        except AssertionError as error:
            difference, captured = str(error) or "an assertion", 0
    finally:
        world.restore()
        linecache.cache.pop(name, None)
    broken = tuple(event.reason_id for event in seen if isinstance(event, framejit.events.Break))
    return Verdict(source, difference, operations.count, min(captured, operations.count), broken, ran.outcomes[0].error is not None)


def one(seed: int, backend: str = "eager", dynamic: bool | None = None) -> Verdict:
    """The program of a seed."""
    return examine(programs.write(Random(seed)), Random(seed + 1), backend, dynamic)


def reduced(source: str, seed: int, backend: str, dynamic: bool | None) -> str:
    """A smaller program that still differs: statements go as long as a difference stays."""
    def differs(text: str) -> bool:
        with contextlib.suppress(Exception):
            return examine(text, Random(seed + 1), backend, dynamic).difference is not None
        return False

    smaller = True
    while smaller:
        smaller = False
        for position in range(len(list(bodies(ast.parse(source))))):
            while True:
                tree = ast.parse(source)
                places = list(bodies(tree))
                if position >= len(places):
                    break
                body, index = places[position]
                inner = getattr(body[index], "body", None) or []
                for instead in ([], inner) if isinstance(inner, list) else ([],):
                    before = list(body)
                    body[index : index + 1] = instead
                    body[:] = body or [ast.Pass()]
                    text = ast.unparse(tree)
                    if text != source and differs(text):
                        source, smaller = text, True
                        break
                    body[:] = before
                else:
                    break
    return source


def bodies(tree: ast.AST) -> Iterator[tuple[list[ast.stmt], int]]:
    """Each statement, as the list it is in and its place there, outermost first."""
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            statements = getattr(node, name, None)
            if isinstance(statements, list):
                yield from ((statements, index) for index in range(len(statements)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=300)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--backend", default="eager")
    parser.add_argument("--dynamic", action="store_true", default=None, help="sizes and numbers are symbols from the first call")
    parser.add_argument("--show", action="store_true", help="print the program of the first seed")
    parser.add_argument("--reduce", action="store_true", help="make programs that differ smaller, and print them")
    parser.add_argument("--keep", type=Path, help="a folder for programs that differ")
    chosen = parser.parse_args()
    if chosen.show:
        print(programs.write(Random(chosen.first))[len(programs.PRELUDE) :])
    warnings.simplefilter("ignore")
    started, ops, captured, different, raised = time.perf_counter(), 0, 0, 0, 0
    for done, seed in enumerate(range(chosen.first, chosen.first + chosen.programs), 1):
        try:
            verdict = one(seed, chosen.backend, chosen.dynamic)
        except Exception:
            verdict = Verdict(programs.write(Random(seed)), traceback.format_exc(), 0, 0, (), False)
        ops, captured, raised = ops + verdict.ops, captured + verdict.captured, raised + verdict.raised
        if verdict.difference is not None:
            different += 1
            print(f"seed {seed}: {verdict.difference[:1500]}", flush=True)
            if chosen.reduce:
                print(reduced(verdict.source, seed, chosen.backend, chosen.dynamic), flush=True)
            if chosen.keep:
                chosen.keep.mkdir(exist_ok=True)
                (chosen.keep / f"{seed}.py").write_text(verdict.source)
        if done % 100 == 0:
            share = captured / max(1, ops)
            print(f"{done} programs, {different} different, {raised} raise, {share:.1%} of {ops} operations captured, "
                  f"{time.perf_counter() - started:.0f} s", flush=True)  # fmt: skip
            framejit.reset()
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
