"""Runs generated programs in eager and compiled: all that can be seen must be the same, and most
tensor work captured.

A long run: `python tests/frontend/fuzz/differential.py --programs 10000 [--first SEED] [--backend
aot_eager] [--dynamic]`; each difference is written out as a program that can be run by itself.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import importlib
import importlib.util
import io
import linecache
import random as pythons_random
import re
import sys
import time
import traceback
import types
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import framejit
import torch
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


def load_from(folder: Path, package: str, name: str) -> Any:
    """A module of a folder whose modules import one another, as a package."""
    if package not in sys.modules:
        sys.modules[package] = types.ModuleType(package)
        sys.modules[package].__path__ = [str(folder)]
    return importlib.import_module(f"{package}.{name}")


programs = load_from(HERE, "framejit_fuzz", "programs")
harness = load("framejit_fuzz_harness", HERE.parent / "semantics" / "harness.py")
CHANGED = ("LOG", "COUNT", "SETTINGS")  # globals that programs change
EXACT = ("eager", "aot_eager")  # backends that run eager's kernels
NOT_OPERATIONS = ("__get__", "__set__", "__deepcopy__")  # attributes, and the copying of inputs


@dataclass
class Verdict:
    """What came of one program. `difference`: how compiled differs from eager; `ops`: tensor
    operations of the eager run, `captured`: those that ran in graphs."""

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
    sys.modules["fuzzed"] = types.ModuleType("fuzzed")  # dataclasses look there
    exec(compile(source, name, "exec"), vars(sys.modules["fuzzed"]))
    return vars(sys.modules["fuzzed"])


class World(harness.World):
    """Also the attributes of the program's classes; what is left behind is kept as it was when the
    run ended."""

    def __init__(self, namespace: dict[str, Any], inputs: tuple[Any, ...]) -> None:
        super().__init__(namespace["program"], inputs, {}, CHANGED)
        self.classes = [
            cls
            for cls in namespace.values()
            if isinstance(cls, type) and cls.__module__ == "fuzzed"
        ]
        self.attributes = self.of_classes()
        self.fn.__globals__["LOG"] = []  # what copying writes must not go to the one that is copied

    def of_classes(self) -> list[dict[str, Any]]:
        return [
            {
                k: list(v) if type(v) is list else v
                for k, v in vars(cls).items()
                if not k.startswith("_")
            }
            for cls in self.classes
        ]

    def fresh(self) -> Any:
        self.restore_classes()
        return super().fresh()

    def restore(self) -> None:
        self.restore_classes()
        super().restore()

    def restore_classes(self) -> None:
        for cls, now, before in zip(self.classes, self.of_classes(), self.attributes, strict=True):
            for name in now.keys() - before.keys():
                delattr(cls, name)
            for name, obj in before.items():
                if type(obj) is list and type(vars(cls).get(name)) is list:
                    vars(cls)[name][:] = obj
                elif now.get(name, obj) is not obj or name not in now:
                    setattr(cls, name, obj)

    def now(self) -> Any:
        contents, held = super().now()
        return contents, {name: copy.copy(obj) for name, obj in held.items()}, self.of_classes()


def run(fn: Any, world: World, *before: Any) -> Any:
    """Calls on one set of fresh arguments, each after something happened to them."""
    with contextlib.redirect_stdout(io.StringIO()):
        inputs, _ = world.fresh()
    torch.manual_seed(0)
    pythons_random.seed(0)
    outcomes = []
    for happen in before:
        happen(inputs)
        outcomes.append(harness.one_call(fn, inputs, {}))
    assert sys.exc_info() == (None, None, None), "an exception is still being handled"
    return harness.Run(
        outcomes,
        inputs,
        {},
        world.now(),
        (torch.get_rng_state(), pythons_random.getstate()),
        harness.modes(),
    )


@contextlib.contextmanager
def framejits_errors() -> Iterator[list[framejit.errors.FramejitError]]:
    """The errors that framejit makes meanwhile: a program's own `except Exception` may take
    them."""
    made: list[framejit.errors.FramejitError] = []
    cls = framejit.errors.FramejitError
    before = cls.__new__

    def noting(kind: type, *args: Any, **kwargs: Any) -> Any:
        error = before(kind, *args, **kwargs)
        made.append(error)
        return error

    cls.__new__ = noting
    try:
        yield made
    finally:
        del cls.__new__


def examine(
    source: str, random: Random, backend: str = "eager", dynamic: bool | None = None
) -> Verdict:
    """Runs one program both ways: on its arguments, on others, and twice on the same, which change
    in between."""
    name = f"<fuzz {abs(hash(source))}>"
    namespace = module_of(source, name)
    program, chosen = namespace["program"], random.getrandbits(32)
    with contextlib.redirect_stdout(io.StringIO()):
        arguments, others = (
            programs.inputs(namespace, Random(chosen), changed) for changed in (None, random)
        )
    world, other = (World(namespace, given) for given in (arguments, others))
    changed = random.getrandbits(32)

    def nothing(given: Any) -> None:
        pass

    def happens(given: Any) -> None:
        with contextlib.suppress(AttributeError):
            programs.disturb(given, namespace, Random(changed))

    counter, seen = harness.Counting(), []
    harness._rests.clear()
    try:
        with Operations() as operations, contextlib.redirect_stdout(io.StringIO()):
            ran = run(program, world, nothing)
        plan = (
            ("first call", world, (nothing,)),
            ("other arguments", other, (nothing,)),
            ("two calls", world, (nothing, happens)),
        )
        expected = [run(program, place, *before) for _, place, before in plan]
        with framejit.config.patch(strict=True, recompile_limit=64):
            handle = framejit.compile(
                program, backend=counter if backend == "eager" else backend, dynamic=dynamic
            )
        handle.framejit.cache.sinks.append(seen.append)
        difference, captured = None, 0
        try:
            for (what, place, before), eager in zip(plan, expected, strict=True):
                with framejits_errors() as made:
                    left = run(handle, place, *before)
                assert not made, f"{what}: framejit raises {made[0]!r}"
                with contextlib.redirect_stdout(
                    io.StringIO()
                ):  # an __eq__ of the program's may print
                    harness.compare(eager, left, what, True, backend in EXACT)
                captured = captured or counter.ran
        except AssertionError as error:
            difference, captured = str(error) or "an assertion", 0
    finally:
        world.restore()
        linecache.cache.pop(name, None)
    broken = tuple(event.reason_id for event in seen if isinstance(event, framejit.events.Break))
    return Verdict(
        source,
        difference,
        operations.count,
        min(captured, operations.count),
        broken,
        ran.outcomes[0].error is not None,
    )


def one(seed: int, backend: str = "eager", dynamic: bool | None = None) -> Verdict:
    """The program of a seed."""
    return examine(programs.write(Random(seed)), Random(seed + 1), backend, dynamic)


def reduced(source: str, seed: int, backend: str, dynamic: bool | None) -> str:
    """A smaller program that still differs: statements go as long as a difference of this kind
    stays."""

    def kind(text: str) -> str:
        try:
            difference = examine(text, Random(seed + 1), backend, dynamic).difference or ""
        except Exception as error:
            difference = repr(error)
        return re.sub(r"0x\w+|\d+", "", difference)[:60]

    sought = kind(source)

    def differs(text: str) -> bool:
        return kind(text) == sought

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
    parser.add_argument(
        "--dynamic",
        action="store_true",
        default=None,
        help="sizes and numbers are symbols from the first call",
    )
    parser.add_argument("--show", action="store_true", help="print the program of the first seed")
    parser.add_argument(
        "--reduce", action="store_true", help="make programs that differ smaller, and print them"
    )
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
            verdict = Verdict(
                programs.write(Random(seed)), traceback.format_exc()[-1500:], 0, 0, (), False
            )
        ops, captured, raised = (
            ops + verdict.ops,
            captured + verdict.captured,
            raised + verdict.raised,
        )
        if verdict.difference is not None:
            different += 1
            print(f"seed {seed}: {verdict.difference[:1500]}", flush=True)
            if chosen.reduce:
                print(reduced(verdict.source, seed, chosen.backend, chosen.dynamic), flush=True)
            if chosen.keep:
                chosen.keep.mkdir(exist_ok=True)
                (chosen.keep / f"{seed}.py").write_text(verdict.source)
        if done % 100 == 0:
            share = (
                f"{captured / max(1, ops):.1%}" if chosen.backend == "eager" else "an unknown share"
            )  # others' graphs are not counted
            print(f"{done} programs, {different} different, {raised} raise, {share} of {ops} operations captured, "
                  f"{time.perf_counter() - started:.0f} s", flush=True)  # fmt: skip
            framejit.reset()
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
