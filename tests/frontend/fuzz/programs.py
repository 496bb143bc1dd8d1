"""Random programs over tensors and Python's containers. In: a Random. Out: source text with a
function `program`, and its inputs.

Every tensor of a call has one shape, so that all of them fit together; every loop ends; anything
may raise, break or change what it was given.
"""

from __future__ import annotations

import collections
import contextlib
import re
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import torch

from .definitions import SECTIONS
from .modules import CONSTRUCTS  # those of constructs.py, and its own

PRELUDE = '''
import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import itertools
import operator
import sys
import typing

import framejit
import torch

LOG = []
COUNT = 0
SETTINGS = {"first": 1}


class Problem(Exception):
    pass


class Box:
    limit = 3

    def __init__(self, tensor, n=0):
        self.tensor = tensor
        self.n = n

    @property
    def double(self):
        return self.tensor * 2

    @classmethod
    def of(cls, tensor):
        return cls(tensor.clone(), cls.limit)

    @staticmethod
    def shift(tensor):
        return tensor + 0.5

    def __add__(self, other):
        return Box(self.tensor + (other.tensor if isinstance(other, Box) else other), self.n + 1)

    def __radd__(self, other):
        return Box(other + self.tensor, self.n + 2)

    def __call__(self, tensor):
        self.n += 1
        return tensor * self.tensor.tanh()

    def __len__(self):
        return self.n

    def __bool__(self):
        return self.n % 2 == 0

    def __getitem__(self, key):
        return self.tensor if key == "tensor" else self.n

    def __iter__(self):
        yield self.tensor
        yield self.tensor.sin()


class Extra:
    """Whatever else a program is called with, by attributes."""


class Deep(Box):
    __slots__ = ()

    def __call__(self, tensor):
        return super().__call__(tensor) - 1

    def __getattr__(self, name):
        if name.startswith("free"):
            return self.n * 2
        raise AttributeError(name)


class Guarded:
    def __init__(self, swallow=()):
        self.swallow = swallow
        self.seen = []

    def __enter__(self):
        self.seen.append("in")
        return self

    def __exit__(self, kind, error, trace):
        self.seen.append(kind.__name__ if kind else "out")
        return kind is not None and issubclass(kind, self.swallow)


@contextlib.contextmanager
def logged(name):
    LOG.append("+" + name)
    try:
        yield name
    finally:
        LOG.append("-" + name)


def pieces(tensor, count):
    for index in range(count):
        received = yield tensor * (index + 1)
        if received is not None:
            tensor = tensor + received
    return tensor


def chained(tensor, count):
    last = yield from pieces(tensor, count)
    yield last.cos()


def remembering(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        LOG.append(function.__name__)
        return function(*args, **kwargs)

    return wrapper
'''

UNARY = ("{}.sin()", "torch.tanh({})", "{}.relu()", "{}.abs()", "-{}", "{}.cos()", "torch.sigmoid({})", "{}.clone()", "{}.softmax(-1)",
         "{}.t().t()", "{}.flip(0)", "{}.reshape(-1).view(x.shape)", "{}.clamp(-1, 1)", "{}.contiguous()", "torch.nn.functional.gelu({})",
         "{}.float()", "torch.cumsum({}, 0)", "{}.detach()", "{}.sum(0, keepdim=True).expand(x.shape)", "torch.sort({}).values",
         "{}.roll(1)", "torch.stack(list({})).tanh()", "torch.cat([{}[:1], {}[1:]])", "{}[[1, 0]]", "{}.mul(0.5)")  # fmt: skip
BINARY = ("{} + {}", "{} - {}", "({} * {}).tanh()", "torch.minimum({}, {})", "torch.where({} > 0, {}, 0.5)", "{}.add({}, alpha=2).tanh()",
          "torch.stack([{}, {}]).mean(0)", "{} / ({}.abs() + 1)")  # fmt: skip
IN_PLACE = (
    "{}.add_({})",
    "{}.mul_({}.tanh())",
    "{} += {}",
    "{}[0] = {}[1]",
    "{}.copy_({})",
    "{}.clamp_(max={}.shape[1])",
    "{}[:, 1:] *= {}[:, 1:]",
)

KINDS = {  # what names may hold: the section that it needs, an expression that makes one, and where the arguments have one
    "tensors": ("", "x", "x"), "ints": ("", "n", "n"), "lists": ("", "[x]", "items"), "dicts": ("", "{'a': x}", "table"), "boxes": ("", "Box(x)", "box"),
    "callables": ("", "torch.sin", ""), "closures": ("", "[torch.sin, Box.shift]", ""), "keys": ("Key", "Key(n)", "extra.key"),
    "bags": ("Key", "{Key(1): x, Key(n): x}", "extra.bag"), "sets": ("Key", "{Key(2), Key(n)}", "extra.group"), "walks": ("walks", "Walk(x, 3)", "extra.walk"),
    "things": ("Thing", "Thing(x, n)", "extra.thing"), "records": ("records", "Record(x, n)", "extra.record"), "queues": ("", "collections.deque([x, x])", "extra.queue"),
    "orders": ("", "collections.OrderedDict(b=x, a=x)", "extra.order"), "defaults": ("", "collections.defaultdict(list)", "extra.default"),
    "counters": ("", "collections.Counter([1, n, 2])", "extra.counter"), "nets": ("modules", "extra.net", "extra.net"),
}  # fmt: skip
NOISE = (
    "LOG.append('{}')",
    "print('{}')",
    "framejit.graph_break()",
    "LOG.append(COUNT)",
    "LOG.append('{}')",
)


class Writer:
    """Writes one program. `names`: those in scope by what they hold, `tensors`, `ints`, ... the
    commonest of them."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.lines: list[str] = []
        self.indent = 1
        self.names = {kind: [given] if given else [] for kind, (_, _, given) in KINDS.items()}
        self.tensors.append("y")
        self.uses: set[str] = set()  # sections of definitions
        self.pending: dict[
            str, str
        ] = {}  # names that the line written next may make, and their kinds
        self.numbers = iter(range(10**6))
        self.budget = random.randint(4, 22)
        self.loops = 0
        self.in_loop = False
        self.level = 0

    # small things

    def pick(self, choices: Any) -> Any:
        return self.random.choice(list(choices))

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def new(self, kind: str) -> str:
        return f"{kind}{next(self.numbers)}"

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)
        for word in re.findall(r"\w+", text) if self.pending else ():
            if word in self.pending:
                self.names[self.pending.pop(word)].append(word)
        self.pending.clear()

    tensors, ints, lists, dicts, boxes, callables = (
        property(lambda self, kind=kind: self.names[kind])
        for kind in ("tensors", "ints", "lists", "dicts", "boxes", "callables")
    )

    def name(self, kind: str) -> str:
        """A new name, in scope once a line has it."""
        name = self.new(kind[0])
        self.pending[name] = kind
        return name

    def some(self, kind: str) -> str:
        """A name in scope, or what makes such an object."""
        section, made, _ = KINDS[kind]
        self.uses.add(section)
        return (
            self.pick(self.names[kind])
            if self.names[kind] and self.chance(0.7)
            else made.replace("n)", f"{self.integer()})")
        )

    def held(self, kind: str) -> str:
        """A name in scope; a line makes one where there is none."""
        section, made, _ = KINDS[kind]
        self.uses.add(section)
        if not self.names[kind] or self.chance(0.2):
            self.line(f"{self.name(kind)} = {made}")
        return self.pick(self.names[kind])

    def noise(self) -> None:
        if self.chance(0.25):
            self.line(self.pick(NOISE).format(self.new("e")))

    @contextlib.contextmanager
    def indented(self) -> Iterator[None]:
        self.indent += 1
        yield
        self.indent -= 1

    @contextlib.contextmanager
    def scoped(self) -> Iterator[None]:
        """Names made within are forgotten: the lines may not have run."""
        before = self.scope()
        yield
        self.restore(before)

    @contextlib.contextmanager
    def loop_body(self) -> Iterator[None]:
        outer, self.in_loop = self.in_loop, True
        self.loops += 1
        with self.scoped(), self.indented():
            yield
        self.loops -= 1
        self.in_loop = outer

    @contextlib.contextmanager
    def function_body(self, *ints: str) -> Iterator[None]:
        """The body of a function that closes over what is in scope, and over `ints`."""
        outer, self.in_loop = self.in_loop, False
        self.level += 1
        with self.scoped(), self.indented():
            self.tensors.append("arg") if "arg" in self.lines[-1] else None
            self.ints.extend(ints)
            yield
        self.level -= 1
        self.in_loop = outer

    def way_out(self, loop: bool) -> None:
        self.line(f"if {self.condition()}:")
        self.line(
            "    "
            + (self.pick(("break", "continue")) if loop and self.chance(0.5) else self.leave())
        )

    # expressions

    def tensor(self, depth: int = 0) -> str:
        roll = self.random.random()
        if depth > 2 or roll < 0.3:
            return self.pick(self.tensors)
        if roll < 0.55:
            template = self.pick(UNARY)
            inner = self.atom(depth)
            return template.replace("{}", inner)
        if roll < 0.75:
            return f"({self.pick(BINARY).format(self.atom(depth), self.atom(depth))})"
        return self.pick((
            lambda: f"({self.atom(depth)} * {self.number()})",
            lambda: f"{self.pick(self.lists)}[{self.pick((0, -1, '0'))}]",
            lambda: f"{self.pick(self.dicts)}['a']",
            lambda: f"{self.pick(self.boxes)}.{self.pick(('tensor', 'double'))}",
            lambda: f"{self.pick(self.boxes)}({self.atom(depth)})",
            lambda: f"Box.shift({self.atom(depth)})",
            lambda: f"({self.atom(depth)} if {self.condition()} else {self.atom(depth)})",
            lambda: f"sum([t * {self.number()} for t in {self.pick(self.lists)}], {self.atom(depth)})",
            lambda: f"functools.reduce(operator.add, {self.pick(self.lists)}, {self.atom(depth)})",
            lambda: f"helper{self.random.randint(0, 1)}({self.atom(depth)}, {self.integer()})" if self.level == 0 else self.atom(depth),
            lambda: f"{self.pick(self.callables)}({self.atom(depth)})" if self.callables else self.atom(depth),
            lambda: f"(lambda t, k={self.integer()}: t * k)({self.atom(depth)})",
            lambda: f"torch.stack([*{self.pick(self.lists)}, {self.atom(depth)}]).sum(0).tanh()",
            lambda: f"max({self.pick(self.dicts)}.items(), key=lambda pair: pair[0])[1]",
            lambda: f"next(iter({self.pick(self.lists)}), {self.atom(depth)})",
            lambda: f"({self.pick(self.boxes)} + {self.atom(depth)}).tensor",
            lambda: f"[*pieces({self.atom(depth)}, 2)][-1]",
        ))()  # fmt: skip

    def atom(self, depth: int) -> str:
        return self.tensor(depth + 1)

    def number(self) -> str:
        return self.pick(
            (self.integer(), "0.5", "1.5", "-2", "len(items)", "Box.limit", "float(n)")
        )

    def integer(self) -> str:
        return self.pick((self.pick(self.ints), "2", "3", f"({self.pick(self.ints)} % 3)", f"len({self.pick(self.lists)})",
                          f"{self.pick(self.boxes)}.n", "x.shape[0]", f"{self.pick(self.boxes)}['n']"))  # fmt: skip

    def condition(self) -> str:
        return self.pick((f"{self.integer()} > {self.random.randint(0, 3)}", f"{self.integer()} % 2 == 0", f"len({self.pick(self.dicts)}) < 4",
                          f"isinstance({self.pick(self.boxes)}, Deep)", f"'b' in {self.pick(self.dicts)}", f"{self.pick(self.boxes)}",
                          f"not {self.pick(self.lists)}", f"0 < {self.integer()} <= 3", f"{self.pick(self.tensors)} is x",
                          f"hasattr({self.pick(self.boxes)}, 'free1')", f"callable({self.pick(self.boxes)})"))  # fmt: skip

    # statements

    def block(self, size: int | None = None) -> None:
        """Some statements, one level in; at least one."""
        self.indent += 1
        before = self.scope()
        self.line("pass")
        for _ in range(self.random.randint(1, 3) if size is None else size):
            self.statement()
        self.restore(before)
        self.indent -= 1

    def scope(self) -> dict[str, list[str]]:
        return {kind: list(names) for kind, names in self.names.items()}

    def restore(self, scope: dict[str, list[str]]) -> None:
        self.names = scope

    def statement(self) -> None:
        self.budget -= 1
        simple = (
            self.assign,
            self.assign,
            self.assign,
            self.number_assign,
            self.change,
            self.change,
            self.in_place,
            self.disturb,
        )
        nested = (
            self.branch,
            self.loop,
            self.attempt,
            self.context,
            self.function,
            self.consume,
            self.comprehension,
            self.match,
        )
        roll = self.random.random()
        if self.budget <= 0 or self.indent > 4 or roll < 0.35:
            self.pick(simple)()
        elif roll < 0.6:
            self.pick(nested)()
        else:
            producer, sections = self.pick(CONSTRUCTS)
            self.uses.update(sections)
            producer(self)

    def assign(self) -> None:
        roll = self.random.random()
        if roll < 0.6:
            value, name = self.tensor(), self.new("t")
            self.line(f"{name} = {value}")
            self.tensors.append(name)
        elif roll < 0.7:
            a, b, name, other = self.tensor(), self.tensor(), self.new("t"), self.new("t")
            self.line(f"{name}, {other} = {a}, {b}")
            self.tensors.extend([name, other])
        elif roll < 0.8:
            items, name = (
                ", ".join(self.tensor(1) for _ in range(self.random.randint(1, 3))),
                self.new("l"),
            )
            self.line(f"{name} = [{items}]")
            self.lists.append(name)
        elif roll < 0.87:
            name = self.new("d")
            self.line(
                f"{name} = {{'a': {self.tensor(1)}, 'b': {self.tensor(1)}, **{self.pick(self.dicts)}}}"
            )
            self.dicts.append(name)
        elif roll < 0.94:
            name = self.new("b")
            self.line(
                f"{name} = {self.pick(('Box', 'Deep'))}{self.pick(('', '.of'))}({self.tensor(1)})"
            )
            self.boxes.append(name)
        else:
            name, rest = self.new("t"), self.new("l")
            self.line(f"{name}, *{rest} = [{self.tensor(1)}, *{self.pick(self.lists)}]")
            self.tensors.append(name)

    def number_assign(self) -> None:
        name = self.pick(self.ints)
        if self.chance(0.5):
            name = self.new("i")
            self.line(f"{name} = {self.integer()}")
            self.ints.append(name)
        else:
            self.line(f"{name} {self.pick(('+=', '-=', '^='))} {self.random.randint(1, 3)}")

    def change(self) -> None:
        items, table, box = self.pick(self.lists), self.pick(self.dicts), self.pick(self.boxes)
        self.line(self.pick((
            f"{items}.append({self.tensor(1)})", f"{items}[-1] = {self.tensor(1)}", f"{items}.reverse()", f"{items}.insert(0, {self.tensor(1)})",
            f"{items} += [{self.tensor(1)}]", f"{table}['c'] = {self.tensor(1)}", f"{table}.update(a={self.tensor(1)})",
            f"{table}.setdefault('d', {self.tensor(1)})", f"{table}.pop('c', None)", f"{box}.tensor = {self.tensor(1)}", f"{box}.n += 1",
            f"LOG.append({self.integer()})", f"{box}.extra = {self.integer()}", f"{items}.extend([{self.tensor(1)}] * 2)",
            f"{table}['b'] = {table}['a']", f"setattr({box}, 'n', {self.integer()})", f"del {items}[2:]", "Box.limit = 4 - Box.limit",
            f"{box}.tensor += 1",
        )))  # fmt: skip
        if self.level == 0 and self.chance(0.15):
            self.line("COUNT += 1")

    def in_place(self) -> None:
        name = self.pick(self.tensors)
        self.line(f"{name} = {name}.clone()" if self.chance(0.5) else f"{name}.shape")
        template = self.pick(IN_PLACE)
        self.line(
            template.format(name, self.tensor(1))
            if "[1]" not in template and "[:, " not in template
            else template.format(name, self.pick(self.tensors))
        )

    def disturb(self) -> None:
        """Something that no graph can hold, or that leaves."""
        tensor = self.pick(self.tensors)
        roll = self.random.random()
        if roll < 0.35:
            self.line(self.pick((f"print({self.integer()})", "framejit.graph_break()", f"print(float({tensor}.sum()) > 0)",
                                 f"LOG.append(round({tensor}.sum().item(), 3))", "print(f'{n=} {len(items)!r:>3}')")))  # fmt: skip
        elif roll < 0.5:
            self.line(f"if {tensor}.sum() > {self.pick(('0', '1.5', '-1'))}:")
            self.block()
            if self.chance(0.5):
                self.line("else:")
                self.block()
        elif roll < 0.62 and self.in_loop:
            self.line(f"if {self.condition()}:")
            self.line("    " + self.pick(("break", "continue")))
        elif roll < 0.7 and self.indent > 1:
            self.line(f"if {self.condition()}:")
            self.line("    " + self.leave())
        elif roll < 0.76:
            self.line(f"assert {self.integer()} < 50, 'too large'")
        else:
            self.assign()

    def leave(self) -> str:
        if self.chance(0.5):
            return f"raise {self.pick(('Problem', 'ValueError', 'KeyError'))}({self.integer()})"
        return (
            f"return {self.tensor(1)}"
            if self.level
            else f"return {self.tensor(1)}, {self.integer()}"
        )

    def branch(self) -> None:
        self.line(f"if {self.condition()}:")
        self.block()
        if self.chance(0.3):
            self.line(f"elif (w := {self.integer()}) > 1:")
            self.block()
        if self.chance(0.5):
            self.line("else:")
            self.block()

    def loop(self) -> None:
        if self.loops >= 2:
            return self.assign()
        before = self.scope()
        name = self.new("t")
        i = self.new("i")
        items, table = self.pick(self.lists), self.pick(self.dicts)
        header = self.pick((
            f"for {i} in range({self.random.randint(1, 3)}):", f"for {i}, {name} in enumerate(list({items})[:3]):",
            f"for {i}, {name} in zip(range(2), {items}):", f"for {name} in tuple({table}.values())[:3]:", f"for {name} in reversed({items}[:2]):",
            f"for {name} in map(torch.sin, {items}[:2]):", f"for _, {name} in sorted({table}.items(), key=lambda p: p[0])[:2]:",
            f"for {name}, {i} in itertools.product({items}[:2], (1, 2)):", f"for {name} in pieces({self.tensor(1)}, 2):",
            f"for {name} in chained({self.tensor(1)}, 1):", f"for {i} in (1, 2):",
            f"for {name} in {self.pick(self.boxes)}:", f"for {name} in filter(None.__ne__, {items}[:2]):",
        ))  # fmt: skip
        self.line(header)
        outer, self.in_loop = self.in_loop, True
        self.loops += 1
        self.tensors.extend(
            [name]
            if f" {name} in" in header or f", {name} in" in header or f"{name}," in header
            else []
        )
        self.ints.extend([i] if f"for {i}" in header or f", {i} in" in header else [])
        self.block(self.random.randint(1, 3))
        self.loops -= 1
        self.in_loop = outer
        self.restore(before)
        if self.chance(0.25):
            self.line("else:")
            self.block(1)

    def attempt(self) -> None:
        outer, self.in_loop = self.in_loop, self.in_loop
        self.line("try:")
        self.block()
        kind = self.pick(("except", "finally", "both"))
        if kind != "finally":
            names = self.pick(("Problem", "(Problem, ValueError)", "Exception", "KeyError"))
            self.line(f"except {names} as error:")
            self.indent += 1
            self.line("LOG.append(type(error).__name__ + str(error))")
            if self.chance(0.2):
                self.line(
                    self.pick(
                        ("raise", "raise Problem('again') from error", "raise Problem('more')")
                    )
                )
            self.indent -= 1
            if self.chance(0.3):
                self.line("else:")
                self.block(1)
        if kind != "except":
            self.line("finally:")
            inside, self.in_loop = self.in_loop, False
            self.block(1)
            self.in_loop = inside
        self.in_loop = outer

    def context(self) -> None:
        guard = self.new("g")
        self.line(self.pick((
            "with torch.no_grad():", f"with logged('{guard}') as {guard}:", f"with Guarded(Problem) as {guard}:", "with contextlib.nullcontext():",
            f"with Guarded() as {guard}, torch.enable_grad():", f"with contextlib.suppress(Problem), logged('{guard}'):",
        )))  # fmt: skip
        self.block()

    def function(self) -> None:
        """A closure over what is in scope; it may change an outer name."""
        name, before = self.new("f"), self.scope()
        outer_lines, self.lines = self.lines, []
        inside, self.in_loop = self.in_loop, False
        self.level += 1
        self.indent += 1
        changed = self.pick([i for i in self.ints if i != "n" and self.level == 1] or [None])
        if changed and self.chance(0.5) and outer_lines and self.indent == 2:
            self.line(f"nonlocal {changed}")
            self.line(f"{changed} += 1")
        local = set()
        for _ in range(self.random.randint(1, 2)):
            value, made = self.tensor(1), self.new("t")
            self.line(f"{made} = {value}")
            self.tensors.append(made)
            local.add(made)
        if self.chance(0.3):
            self.line(
                self.pick(("print('inner')", "LOG.append('inner')", "framejit.graph_break()"))
            )
        self.line(f"return {self.tensor(1)} + arg")
        self.indent -= 1
        self.level -= 1
        body, self.lines = self.lines, outer_lines
        self.in_loop = inside
        self.restore(before)
        if self.chance(0.2):
            self.line("@remembering")
        self.line(f"def {name}(arg, scale={self.integer()}):")
        self.lines += body
        self.callables.append(name)

    def consume(self) -> None:
        name = self.new("t")
        count = self.random.randint(1, 2)
        walk = self.new("w")
        self.line(f"{walk} = {self.pick(('pieces', 'chained'))}({self.tensor(1)}, {count})")
        self.line(f"{name} = next({walk})")
        self.tensors.append(name)
        if self.chance(0.4):
            self.line("print('between')")
        if self.chance(0.5):
            self.line(f"{name} = {name} + sum({walk})")
        elif count > 1:
            self.line(f"{name} = {walk}.send({name})")

    def comprehension(self) -> None:
        name, items, table = self.new("l"), self.pick(self.lists), self.pick(self.dicts)
        text = self.pick((
            f"[t.sin() for t in {items} if {self.condition()}] or [{self.tensor(1)}]",
            f"[t * k for t in {items}[:2] for k in (1, {self.integer()})] or [{self.tensor(1)}]",
            f"[v for k, v in {table}.items() if k != 'c'] or [{self.tensor(1)}]",
            f"list({{k: v * 2 for k, v in {table}.items()}}.values()) or [{self.tensor(1)}]",
            f"[(t, LOG.append(1))[0] for t in {items}] or [{self.tensor(1)}]",
            f"[*map(lambda t: t + {self.number()}, {items}), {self.tensor(1)}]",
            f"[a - b for a, b in zip({items}, {items}[1:])] or [{self.tensor(1)}]",
            f"[(print(len({items})), t)[1] for t in {items}[:2]] or [{self.tensor(1)}]",
            f"sorted({items}, key=lambda t: {self.integer()}) or [{self.tensor(1)}]",
        ))  # fmt: skip
        self.line(f"{name} = {text}")
        self.lists.append(name)

    def match(self) -> None:
        subject = self.pick(
            (
                self.integer(),
                f"({self.integer()}, {self.pick(self.tensors)})",
                self.pick(self.dicts),
                self.pick(self.boxes),
            )
        )
        self.line(f"match {subject}:")
        self.indent += 1
        for pattern in self.random.sample(
            ("0 | 1", "[2, t]", "{'c': t}", "Box(n=1)", "Deep()", "int() as k if k > 2", "(a, _)"),
            2,
        ):
            self.line(f"case {pattern}:")
            self.block(1)
        self.line("case _:")
        self.block(1)
        self.indent -= 1

    # whole programs

    def helper(self, number: int) -> list[str]:
        """A module-level function of a tensor and a number."""
        self.lines, before = [], self.scope()
        self.names = {
            kind: [given] if given and "." not in given else []
            for kind, (_, _, given) in KINDS.items()
        }
        self.level, outer = 1, self.budget
        self.line("items, table, box = [x], {'a': x}, Box(x)")
        self.budget = 3
        for _ in range(self.random.randint(1, 3)):
            self.statement()
        self.line(f"return {self.tensor(1)}")
        self.level, self.budget = 0, outer
        self.restore(before)
        body, self.lines = self.lines, []
        return [f"def helper{number}(x, n=1):", *body, "", ""]

    def definitions(self) -> str:
        """The sections that the program uses, each `NOISE` in them chosen anew."""
        number = self.pick(("hash(self.number)", "self.number % 2", "7", "hash(self.number)"))
        meta = self.pick(("type", "type", "type", "type", "Registered"))
        lines = (
            "".join(text for section, text in SECTIONS.items() if section in self.uses)
            .replace("HASH", number)
            .replace("META", meta)
            .splitlines()
        )
        return "\n".join(
            line.replace(
                "NOISE", self.pick(NOISE).format(self.new("e")) if self.chance(0.15) else "pass"
            )
            if line.endswith(" NOISE")
            else line
            for line in lines
        )

    def program(self) -> str:
        helpers = self.helper(0) + self.helper(1)
        self.line("global COUNT")
        while self.budget > 0:
            self.statement()
        kinds = self.random.sample(
            [kind for kind in KINDS if self.names[kind] and kind not in ("callables", "boxes")], 3
        )
        results = [
            self.tensor(1),
            *self.random.sample(self.tensors, min(2, len(self.tensors))),
            self.integer(),
            self.pick(self.lists),
        ]
        results += [self.some(kind) for kind in kinds]
        self.line(f"return {', '.join(results)}")
        return "\n".join(
            [
                PRELUDE,
                self.definitions(),
                "",
                *helpers,
                "def program(x, y, n, items, table, box, extra):",
                *self.lines,
                "",
            ]
        )


def write(random: Random) -> str:
    """Source text of a module with `program(x, y, n, items, table, box, extra)`."""
    return Writer(random).program()


def inputs(
    namespace: dict[str, Any], random: Random, changed: Random | None = None
) -> tuple[Any, ...]:
    """Arguments for `program`; sometimes tensors want gradients, sometimes two arguments share.
    `changed`: other ones than without."""
    rolls = [random.random() for _ in range(5)]
    number, count = random.randint(0, 3), random.randint(0, 2)
    shape, dtype, turned = (2, 3), torch.float32, False
    for what in (
        changed.sample(
            (
                "shape",
                "shape",
                "dtype",
                "turned",
                "grad",
                "same",
                "items",
                "deep",
                "number",
                "count",
                "key",
            ),
            2,
        )
        if changed
        else ()
    ):
        rolls = [
            1 - roll if what == name else roll
            for roll, name in zip(rolls, ("grad", "same", "items", "deep", "key"), strict=True)
        ]
        shape = changed.choice(((4, 3), (1, 3), (3, 3), (2, 1))) if what == "shape" else shape
        dtype = (
            changed.choice((torch.float64, torch.float64, torch.bfloat16))
            if what == "dtype"
            else dtype
        )
        turned = turned or what == "turned"
        number = changed.choice((-1, 5, 2.0, True)) if what == "number" else number
        count += what == "count"
    grad, same, more, deep, alike = (
        rolls[0] < 0.3,
        rolls[1] < 0.1,
        rolls[2] < 0.3,
        rolls[3] < 0.5,
        rolls[4] < 0.3,
    )

    def tensor(offset: float) -> torch.Tensor:
        made = (
            torch.arange(float(shape[0] * shape[1])).reshape(shape[::-1] if turned else shape)
            - offset
        ) / 4
        return (made.t() if turned else made).to(dtype).requires_grad_(grad)

    x = tensor(2.0)
    y = x if same else tensor(1.0)
    items = [tensor(3.0), y] if more else [tensor(3.0)]
    box = namespace["Deep" if deep else "Box"](tensor(0.5), count)
    extra = namespace["Extra"]()
    for name, make in EXTRAS.items():
        with contextlib.suppress(KeyError):  # of a section that the program does not use
            setattr(extra, name, make(namespace, tensor, number))
    if alike and hasattr(extra, "key"):
        extra.bag[extra.key] = x
    return x, y, number, items, {"a": tensor(1.5)}, box, extra


EXTRAS: dict[str, Callable[[dict[str, Any], Callable[[float], torch.Tensor], Any], Any]] = {
    "key": lambda made, tensor, n: made["Key"](int(n)), "bag": lambda made, tensor, n: {made["Key"](1): tensor(1), made["Parity"](2): tensor(2)},
    "group": lambda made, tensor, n: {made["Key"](int(n)), made["Own"](2)}, "walk": lambda made, tensor, n: made["Walk"](tensor(1), 3),
    "thing": lambda made, tensor, n: made["Thing"](tensor(1), n), "record": lambda made, tensor, n: made["Record"](tensor(1), n),
    "queue": lambda made, tensor, n: collections.deque([tensor(1), tensor(2)], 3 if n > 1 else None),
    "order": lambda made, tensor, n: collections.OrderedDict(b=tensor(1), a=tensor(2)),
    "default": lambda made, tensor, n: collections.defaultdict(list, {n: [1]}), "counter": lambda made, tensor, n: collections.Counter([1, n, 1]),
    "net": lambda made, tensor, n: made["Wide" if n % 2 else "Net"](tensor(1), n),
}  # fmt: skip


def disturb(arguments: tuple[Any, ...], namespace: dict[str, Any], random: Random) -> None:
    """What a caller may change between two calls with the same objects."""
    x, y, n, items, table, box, extra = arguments
    random.choice((
        lambda: items.append(x), lambda: items.clear(), lambda: table.update(c=y), lambda: setattr(box, "n", box.n + 1), lambda: None,
        lambda: setattr(box, "tensor", x), lambda: setattr(box, "hook", torch.sin), lambda: setattr(namespace["Box"], "limit", 1),
        lambda: setattr(box, "__class__", namespace["Deep" if type(box).__name__ == "Box" else "Box"]), lambda: namespace["SETTINGS"].clear(),
        lambda: setattr(extra, "key", 1), lambda: extra.queue.append(y), lambda: extra.order.update(a=1), lambda: extra.counter.clear(),
        lambda: items.insert(0, y), lambda: setattr(namespace["Box"], "shift", staticmethod(torch.cos)), lambda: extra.net.eval(),
        lambda: setattr(extra.net.layers[0], "scale", 9), lambda: extra.net.layers.append(torch.nn.ReLU()), lambda: setattr(extra.net, "n", 0.5),
        lambda: setattr(extra.net, "gain", None), lambda: setattr(extra.net, "helper", torch.cos), lambda: extra.net.first.requires_grad_(False),
    ))()  # fmt: skip
