"""Programs that are edited between two processes: what one has stored must not serve the other,
where anything that matters has changed.

A program is the text of a module. It runs once with stored entries, is edited in one place, and runs
again under the same name and file with another handle, as in another process; its results are
compared with those of Python. Run as a script for a long search.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import linecache
import random
import sys
import tempfile
import time
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import framejit
import torch
from framejit.events import Stored
from framejit.options import config

NAME = "framejit_edited_program"
FILE = "/framejit-edited/program.py"

PROGRAMS = (
    """
import torch
SCALE = 2.0
def helper(x, bias=1.0, *, gain=3.0):
    return x * gain + bias
def run(x):
    y = helper(x) * SCALE
    return y.sum() - helper(x, 2.0, gain=0.5)
""",
    """
import torch
from torch import nn
class Base(nn.Module):
    factor = 3
    def scale(self, x):
        return x * self.factor
    @property
    def shift(self):
        return 0.5
class Net(Base):
    names = ("first", "second")
    def __init__(self):
        super().__init__()
        self.weight = 1.5
        self.act = nn.ReLU()
    @staticmethod
    def twice(x):
        return x + x
    @classmethod
    def make(cls):
        return cls.factor * 2
    def forward(self, x):
        y = self.scale(x) + self.shift
        for name in self.names:
            if name == "second":
                y = self.twice(y)
        return self.act(y * self.weight) - self.make()
def run(x):
    return net(x)
net = Net()
""",
    """
import enum
import torch
from dataclasses import dataclass
class Mode(enum.Enum):
    ADD = 1
    MUL = 2
@dataclass
class Settings:
    rate: float = 0.25
    mode: Mode = Mode.ADD
    def apply(self, x, y):
        if self.mode is Mode.ADD:
            return x + self.rate * y
        return x * self.rate * y
SETTINGS = Settings()
def run(x):
    return SETTINGS.apply(x, x.cos()) + SETTINGS.mode.value
""",
    """
import functools
import torch
def scaled(by):
    def decorate(function):
        @functools.wraps(function)
        def inner(*args, **kwargs):
            return function(*args, **kwargs) * by
        return inner
    return decorate
@scaled(2)
def first(x):
    return x.sin()
@scaled(by=3)
def second(x, power=2):
    return x ** power
def adder(amount):
    return lambda x: x + amount
add_one, add_two = adder(1), adder(2)
def run(x):
    return add_one(first(x)) * add_two(second(x))
""",
    """
import torch
TABLE = {"a": 1.0, "b": [2, 3], "c": (4, {"d": 5})}
ORDER = ["a", "b", "c"]
def weight(name):
    value = TABLE[name]
    if isinstance(value, float):
        return value
    return value[0] if isinstance(value, list) else value[1]["d"]
def run(x):
    total = x
    for position, name in enumerate(ORDER):
        total = total + weight(name) * position
    print(end="")
    return total.tanh() - len(ORDER)
""",
    """
import torch
def body(x, n):
    y = x
    for i in range(n):
        y = y * 0.5 + i
    return y
def guarded(x):
    try:
        if x.shape[0] > 3:
            raise ValueError("large")
        return body(x, 2)
    except ValueError as error:
        return x - len(str(error))
    finally:
        x = x + 1
def run(x):
    first = guarded(x)
    print(end="")
    second = guarded(x[:2])
    return first.sum() + second.sum(), [value for value in (1, 2, 3) if value > 1]
""",
    """
import operator
import torch
class Meta(type):
    def __call__(cls, *args):
        made = super().__call__(*args)
        made.kind = "meta"
        return made
class Point(metaclass=Meta):
    __slots__ = ("x", "y", "kind")
    def __init__(self, x, y):
        self.x, self.y = x, y
    def __add__(self, other):
        return Point(self.x + other.x, self.y - other.y)
    def __getitem__(self, index):
        return (self.x, self.y)[index]
    def __len__(self):
        return 2
    def __eq__(self, other):
        return self.kind == other.kind
def run(x):
    p = Point(x, x * 2) + Point(x.cos(), 3)
    extra = operator.mul(p[0], len(p))
    return extra + p[1] if p == Point(1, 2) else extra
""",
)

OPERATORS = (ast.Add, ast.Sub, ast.Mult)
COMPARISONS = (ast.Gt, ast.Lt, ast.Eq, ast.GtE)


@dataclass
class Outcome:
    """The edited programs of a search: how many there were, how often a stored entry served, and
    those that differed."""

    edits: int = 0
    taken: int = 0
    taken_unedited: int = 0
    different: list[str] = field(default_factory=list)


def load(text: str) -> types.ModuleType:
    """The program as a module that is imported."""
    module = types.ModuleType(NAME)
    module.__file__ = FILE
    linecache.cache[FILE] = (len(text), None, text.splitlines(keepends=True), FILE)
    sys.modules[NAME] = module
    exec(compile(text, FILE, "exec"), module.__dict__)
    return module


def result_of(function: object, x: torch.Tensor) -> object:
    try:
        with contextlib.redirect_stdout(None):
            return function(x)  # type: ignore[operator]
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def same(one: object, other: object) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return (
            one.shape == other.shape
            and one.dtype == other.dtype
            and torch.allclose(one, other, rtol=1e-5, atol=1e-6, equal_nan=True)
        )
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


def edits(tree: ast.Module) -> Iterator[tuple[ast.AST, str, object]]:
    """Every edit of a program: a node, a field, and its new value."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            value = node.value
            if type(value) in (int, float):
                yield node, "value", value + 1
                yield node, "value", -value
                yield node, "value", float(value) if type(value) is int else int(value)
            elif type(value) is str:
                yield node, "value", value + "x"
        elif isinstance(node, ast.BinOp | ast.AugAssign):
            yield from ((node, "op", other()) for other in OPERATORS if type(node.op) is not other)
        elif isinstance(node, ast.Compare):
            first, *rest = node.ops
            yield from (
                (node, "ops", [one(), *rest]) for one in COMPARISONS if type(first) is not one
            )
        elif isinstance(node, ast.Attribute) and node.attr in ("sin", "cos", "tanh", "sum"):
            yield (
                node,
                "attr",
                {"sin": "cos", "cos": "sin", "tanh": "sin", "sum": "mean"}[node.attr],
            )
        elif isinstance(node, ast.IfExp):
            yield node, "test", ast.UnaryOp(ast.Not(), node.test)
        elif isinstance(node, ast.If):
            yield node, "test", ast.UnaryOp(ast.Not(), node.test)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            if node.decorator_list:
                yield node, "decorator_list", node.decorator_list[1:]
            if isinstance(node, ast.ClassDef) and node.bases:
                yield node, "bases", []
        if isinstance(node, ast.List | ast.Tuple) and len(node.elts) > 1:
            yield node, "elts", node.elts[::-1]
            yield node, "elts", node.elts[1:]
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and len(block) > 1 and not isinstance(node, ast.Module):
                yield from (
                    (node, name, block[:index] + block[index + 1 :]) for index in range(len(block))
                )
                yield node, name, [block[1], block[0], *block[2:]]


def edited(text: str, choose: random.Random) -> str:
    """The program with one edit; lines stay where they are as far as Python's writer keeps them."""
    tree = ast.parse(text)
    node, name, value = choose.choice(list(edits(tree)))
    setattr(node, name, value)
    return ast.unparse(ast.fix_missing_locations(tree))


def run_stored(text: str, x: torch.Tensor, backend: str) -> tuple[object, int]:
    """The result of a program under a handle of its own, and how many stored entries served it."""
    taken: list[Stored] = []

    def count(event: object) -> None:
        if isinstance(event, Stored) and event.taken:
            taken.append(event)

    with config.patch(sinks=(count,)):
        module = load(text)
        compiled = framejit.compile(module.run, backend=backend)
        return result_of(compiled, x), len(taken)


def search(count: int, first: int, backend: str, folder: Path) -> Outcome:
    """Runs edited programs with seeds from `first` on."""
    found = Outcome()
    x = torch.tensor([0.5, -1.0, 2.0, 0.25])
    for seed in range(first, first + count):
        choose = random.Random(seed)
        original = ast.unparse(ast.parse(choose.choice(PROGRAMS)))
        with config.patch(store=True, cache_dir=folder / str(seed)):
            run_stored(original, x, backend)
            text = edited(original, choose)
            try:
                want = result_of(load(text).run, x)
            except Exception:
                continue  # it cannot be imported
            got, taken = run_stored(text, x, backend)
            again, taken_again = run_stored(original, x, backend)
            plain = result_of(load(original).run, x)
        found.edits += 1
        found.taken += taken
        found.taken_unedited += taken_again
        if not same(got, want) or not same(again, plain):
            found.different.append(f"seed {seed}: {got} {again}, Python {want} {plain}\n{text}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--backend", default="eager")
    asked = parser.parse_args()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        found = search(asked.programs, asked.first, asked.backend, Path(folder))
    print(*found.different, sep="\n\n")
    print(
        f"end: {found.edits} edits, {len(found.different)} different; stored entries served "
        f"{found.taken} times after an edit, {found.taken_unedited} times after its undoing; "
        f"{time.monotonic() - start:.0f} s"
    )
    return bool(found.different)


if __name__ == "__main__":
    raise SystemExit(main())
