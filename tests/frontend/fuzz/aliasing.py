"""Random programs over tensors that share memory, compiled against eager: results, every byte of
the memory they came from, strides, what is a view of what, and gradients must be the same.

Each program is called through one handle with several patterns of inputs: views of the same sizes
and strides that are disjoint, overlap, interleave, are one memory, are one object. They are
arguments, attributes of an object, or parameters and buffers of a module, some of them tied: one
parameter under two names, a buffer that is a view of a parameter. A long run: `python
tests/frontend/fuzz/aliasing.py --programs 20000 [--first SEED] [--backend native] [--seconds N]
[--device cuda]`. `--show` prints the program of the first seed.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import linecache
import re
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from random import Random
from types import SimpleNamespace
from typing import Any

import framejit
import torch

SIZE = 96  # elements of a base
LAYOUTS = {  # sizes and strides of an input
    "rows": ((2, 4), (4, 1)), "columns": ((4, 2), (4, 1)), "transposed": ((4, 2), (1, 4)), "row": ((4,), (1,)), "steps": ((4,), (2,)),
    "column": ((3,), (6,)), "cube": ((2, 2, 2), (8, 2, 1)), "number": ((), ()), "expanded": ((3, 4), (0, 1)), "windows": ((3, 4), (2, 1)),
    "strided": ((2, 3), (1, 1)), "spread": ((2, 2), (12, 3)),
}  # fmt: skip
COMMON = ("rows", "columns", "transposed", "row", "steps", "column", "cube", "number", "spread")
PATTERNS = (
    "separate",
    "disjoint",
    "near",
    "same",
    "one object",
    "interleaved",
    "detached",
    "other storage",
    "any",
)
DTYPES = (torch.float32,) * 6 + (torch.float64, torch.int32, torch.int64)
NAMES = "abcd"

WRITES = (
    "{v}.add_({k})", "{v}.mul_({k})", "{v}.sub_({w})", "{v}.mul_({w})", "{v}.copy_({w})", "{v}.zero_()", "{v}.fill_({k})",
    "{v}[0] = {k}", "{v}[..., 1:] = {k}", "{v}[...] = {w}", "{v}[..., :2] = {w}[..., 1:3]", "{v} += {w}", "{v} *= {k}", "{v} -= {k}",
    "{v}.data.add_({k})", "{v}.detach().mul_({k})", "{v}.relu_()", "{v}.clamp_(min={k})", "{v}.masked_fill_({v} > {k}, {k})",
    "torch.add({v}, {k}, out={v})", "torch._foreach_add_([{v}, {w}], {k})", "torch._foreach_mul_([{v}, {w}], [{k}, 2])",
    "{v}[torch.tensor([0, 1])] += {k}", "{v}.index_fill_(0, torch.tensor([1], device={v}.device), {k})", "{v}[{w} > {k}] = {k}",
    "{v}.add_({w}, alpha=2)", "{v}.addcmul_({w}, {w})", "{v}.neg_()", "{v}.index_add_(0, torch.tensor([0], device={v}.device), {w}[:1])", "{v}.cumsum_(0)",
    "torch.relu_({v})", "torch.nn.functional.relu({v}, inplace=True)", "{v}.set_({w})", "{v}.unsqueeze_(0)", "{v}.t_()",
    "{v}.lerp_({w}, 0.5)", "{v}.view(-1).add_({k})", "{v}.flatten()[1:].mul_({k})", "{v}.swapaxes(0, -1).add_({w})",
    "{v}.random_(9)", "{v}.bernoulli_(0.5)", "{v}.uniform_(-1, {k} + 2)", "torch.nn.functional.dropout({v}, 0.5, True, True)",
    "{v}.copy_(torch.rand({w}.shape))", "{v}.random_(9).sub_({w})",
)  # fmt: skip
VIEWS = (
    "{v}[1:]", "{v}[:-1]", "{v}[..., 1:]", "{v}[..., 0]", "{v}[::2]", "{v}.t()", "{v}.unsqueeze(0)", "{v}.expand(2, *{v}.shape)",
    "{v}.unfold(-1, 2, 1)", "{v}.as_strided((2, 2), (1, 1))", "{v}.view(-1)", "{v}.reshape(-1)", "{v}.detach()", "{v}.data",
    "{v}.chunk(2)[0]", "{v}.chunk(2, -1)[1]", "{v}.split(1)[0]", "{v}.diagonal()", "{v}.narrow(0, 0, 1)", "{v}.transpose(0, -1)",
    "{v}.view(torch.int32)", "{v}.view_as({v})", "{v}[None]", "{v}.movedim(0, -1)", "{v}.squeeze()", "{v}.unbind(0)[0]", "{v}.T", "{v}",
)  # fmt: skip
VALUES = (
    "{v} + {k}", "{v} * {w}", "{v}.sum()", "{v}.clone()", "{v} - {w}", "torch.cat([{v}.reshape(-1), {w}.reshape(-1)])",
    "torch.where({v} > {k}, {v}, {w})", "{v}.contiguous()", "{v}.float()", "{v}.sum(0)", "torch.stack([{v}, {v}])", "{v}.abs().max()",
    "torch.empty_like({v}).fill_({k})", "{v}.to(torch.float64)", "{v}.flip(0)", "torch.rand_like({v})", "torch.nn.functional.dropout({v})",
    "torch.randint(0, 9, {v}.shape, device={v}.device)",
)  # fmt: skip
BREAK = "print(end='')"
# Backends with options. The default tries nothing on graphs as small as these; `tuned` always does.
# By itself inductor draws random numbers of its own.
VARIANTS = {
    "inductor": ("inductor", {"fallback_random": True}),
    "default": ("autotune", None),
    "tuned": (
        "autotune",
        {
            "candidates": ("native", "torchscript", "aot_eager"),
            "remember": False,
            "isolate": False,
            "tune_budget_s": 0.2,
        },
    ),
}


@dataclass
class Program:
    """Text of a function of an object or a module whose attributes a, b, ... are the inputs, or of
    these; the layouts and the dtype of its inputs; the patterns of each call."""

    source: str
    layouts: list[str]
    dtype: torch.dtype
    mode: str  # "inference", "leaves", "history"
    by_attribute: bool
    calls: list[tuple[str, int]] = field(default_factory=list)

    by_module: bool = False  # the object is a module
    device: str = "cpu"
    own_counters: bool = False  # each parameter has a version counter of its own

    @property
    def shows_bits(self) -> bool:
        """Whether it looks at the bits of floats: the sign of a NaN is nobody's promise, and
        compilers of C change it."""
        return self.dtype is torch.float32 and ".view(torch.int32)" in self.source

    def looking(self) -> Program:
        """The same, but every tensor is asked for its history at the start and behind each
        statement, as a capture asks.

        To torch a view whose base got a history after it was made is a leaf until somebody asks,
        and writing into it an error.
        """
        head, *lines = self.source.splitlines()
        looks = "    [tensor.is_leaf for tensor in locals().values() if isinstance(tensor, torch.Tensor)]"
        body = [looks] + [part for line in lines for part in (line, looks)]
        return replace(self, source="\n".join([head, *body[:-1]]) + "\n")

    def alternatives(self, pattern: str, seed: int) -> Iterator[Program]:
        """Programs that differ from this one in what they raise only: one that asks for histories,
        and, for inputs that have no element in common, one whose parameters share no version
        counter. By a shared one, torch takes a write into an input for a write into its neighbours
        on the same base."""
        yield self.looking()
        if self.by_module and not Inputs(self, pattern, seed).overlap:
            yield replace(self, own_counters=True)

    def hides_writes(self, pattern: str, dynamic: bool | None) -> bool:
        """Whether it may write, behind a break, what a backward pass keeps, by way of `.data` or of
        another storage, of which autograd sees nothing. With `dynamic`, the capture breaks by
        itself where torch cannot make a fake view of symbolic sizes."""
        hidden = ".data" in self.source or pattern in ("other storage", "detached")
        return hidden and bool(dynamic or BREAK in self.source)

    @property
    def changes_metadata(self) -> bool:
        """Whether it gives a tensor another storage or other sizes in place. Which history the
        tensor has then depends, in eager too, on which unread values of before are still alive."""
        return any(name in self.source for name in (".set_(", ".t_(", ".unsqueeze_("))

    @property
    def writes_lists(self) -> bool:
        """Whether one operator writes several tensors. Where these overlap, torch's history of one
        does not know of the others' writes."""
        return "_foreach_" in self.source

    def arguments(self, views: list[torch.Tensor]) -> list[Any]:
        """What a call gets. In a module every second input is a parameter, which takes its place in
        `views`; the others are buffers."""
        if not self.by_attribute:
            return views
        if not self.by_module:
            return [SimpleNamespace(**dict(zip(NAMES, views, strict=False)))]
        module, tied = torch.nn.Module(), dict[int, torch.Tensor]()
        for number, (name, view) in enumerate(zip(NAMES, list(views), strict=False)):
            if number % 2 == 0 and self.mode != "history" and id(view) not in tied:
                value = view.data if self.own_counters else view.detach()
                tied[id(view)] = torch.nn.Parameter(value, self.mode == "leaves")
            views[number] = tied.setdefault(id(view), view)
            if isinstance(views[number], torch.nn.Parameter):
                module.register_parameter(name, views[number])
            else:
                module.register_buffer(name, views[number])
        return [module]


def span(layout: str) -> int:
    sizes, strides = LAYOUTS[layout]
    return sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True)) + 1


def offsets(pattern: str, layouts: list[str], random: Random) -> list[tuple[int, int]]:
    """(base, offset) of each input."""
    if pattern == "separate":
        return [
            (index, random.randrange(SIZE - span(layout))) for index, layout in enumerate(layouts)
        ]
    places, start = [], random.randrange(4)
    if pattern == "disjoint":
        order = random.sample(range(len(layouts)), len(layouts))
        found = {}
        for index in order:
            found[index] = (0, start)
            start += span(layouts[index]) + random.choice((0, 0, 1, 3))
        return [found[index] for index in range(len(layouts))]
    for index, layout in enumerate(layouts):
        if pattern == "near":
            places.append((0, start + random.randrange(4)))
        elif pattern == "interleaved":
            places.append((0, start + index))
        elif pattern == "any":
            places.append((random.randrange(2), random.randrange(SIZE - span(layout))))
        else:
            places.append((0, start))
    return places


class Inputs:
    """The bases of one call, and the views of them that it is given."""

    def __init__(self, program: Program, pattern: str, seed: int) -> None:
        random = Random(seed)
        count = len(program.layouts)
        numbers = [
            torch.arange(SIZE, dtype=torch.int64)
            .add(7 * number)
            .remainder(9)
            .sub(3)
            .to(program.device, program.dtype)
            for number in range(count)
        ]
        self.leaves: list[torch.Tensor] = []
        bases = [self.base(made, program.mode) for made in numbers]
        places = offsets(pattern, program.layouts, random)
        self.views = []
        for index, (layout, (base, offset)) in enumerate(zip(program.layouts, places, strict=True)):
            same = program.layouts.index(layout)
            if pattern == "one object" and same < index:
                self.views.append(self.views[same])
            else:
                self.views.append(self.view(bases[base], layout, offset, pattern, index, random))
        self.bases = bases
        if program.mode == "leaves":
            self.leaves = [view for view in self.views if view.requires_grad]

    def base(self, numbers: torch.Tensor, mode: str) -> torch.Tensor:
        if mode != "history":
            return numbers
        self.leaves.append(numbers.requires_grad_())
        return numbers * 1

    def view(
        self, base: torch.Tensor, layout: str, offset: int, pattern: str, index: int, random: Random
    ) -> torch.Tensor:
        sizes, strides = LAYOUTS[layout]
        if pattern == "other storage":
            memory = base.detach()
            made = torch.from_dlpack(memory[offset:] if index % 2 else memory).as_strided(
                sizes, strides, 0 if index % 2 else offset
            )
        else:
            made = base.as_strided(sizes, strides, offset)
            if pattern == "detached" and index % 2:
                made = made.detach() if random.random() < 0.5 else made.data
            elif layout == "row" and random.random() < 0.3:
                made = base[offset : offset + 4]
        return made

    @property
    def overlap(self) -> bool:
        """Whether two different inputs have an element in common."""
        seen = [
            {view[place].data_ptr() for place in itertools.product(*map(range, view.shape))}
            for view in {id(view): view.detach() for view in self.views}.values()
        ]
        return len(set().union(*seen)) < sum(map(len, seen))

    def snapshot(self) -> list[torch.Tensor]:
        """All memory there is, and the inputs as they are now."""
        return [item.detach().clone() for item in (*self.bases, *self.views)]


# --- writing programs


def write(random: Random) -> Program:
    count = random.choice((2, 2, 2, 3, 4))
    usual = [
        random.choice(COMMON if random.random() < 0.85 else tuple(LAYOUTS)) for _ in range(count)
    ]
    layouts = [usual[0] if random.random() < 0.5 else layout for layout in usual]
    dtype = random.choice(DTYPES)
    mode = (
        random.choice(("inference", "inference", "leaves", "history"))
        if dtype.is_floating_point
        else "inference"
    )
    program = Program("", layouts, dtype, mode, random.random() < 0.25)
    names = list(NAMES[:count])
    lines = [f"{name} = m.{name}" for name in names] if program.by_attribute else []
    sample = Inputs(program, random.choice(("separate", "disjoint")), 0)
    known: dict[str, Any] = {
        "torch": torch,
        "m": SimpleNamespace(**dict(zip(names, sample.views, strict=True))),
    }
    known.update(zip(names, sample.views, strict=True))
    frozen = False
    for _ in range(random.randint(2, 7)):
        line = statement(random, names, mode, random.random() < 0.5)
        for _ in range(8):
            if tried(line, known) or random.random() < 0.05:
                break
            line = statement(random, names, mode, random.random() < 0.5)
        else:
            continue
        target = line.partition(" = ")[0]
        if target.isidentifier() and target not in names and target in known:
            names.append(target)
        lines.append(line)
        frozen = frozen or line == BREAK
    results = [
        random.choice(names) if random.random() < 0.6 else expression(random, VIEWS + VALUES, names)
        for _ in range(random.randint(1, 3))
    ]
    results = [
        result if result in names or tried(f"_ = {result}", known) else names[0]
        for result in results
    ]
    lines.append(f"return {', '.join(results)},")
    parameters = "m" if program.by_attribute else ", ".join(NAMES[:count])
    program.source = f"def program({parameters}):\n" + "".join(f"    {line}\n" for line in lines)
    patterns = random.sample(PATTERNS, 4)
    program.calls = [(pattern, random.getrandbits(16)) for pattern in (*patterns, patterns[0])]
    program.by_module = program.by_attribute and program.calls[0][1] % 2 == 1
    return program


def statement(random: Random, names: list[str], mode: str, writes: bool) -> str:
    if random.random() < 0.1:
        return BREAK
    if not writes:
        made = f"v{len(names)}"
        return f"{made} = {expression(random, VIEWS if random.random() < 0.6 else VALUES, names)}"
    line = expression(random, WRITES, names)
    if mode == "leaves" or (mode == "history" and random.random() < 0.2):
        return f"with torch.no_grad(): {line}"
    return line


def expression(random: Random, forms: tuple[str, ...], names: list[str]) -> str:
    return random.choice(forms).format(
        v=random.choice(names), w=random.choice(names), k=random.choice((1, 2, 3, -1))
    )


def tried(line: str, known: dict[str, Any]) -> bool:
    """Whether a statement runs on the sample."""
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)  # of results that out= has to resize
            exec(line, known)
    except Exception:
        return False
    return True


# --- running them


@dataclass
class Outcome:
    """What can be seen of a call. error: the class of the exception, message: its first line.
    kinds: dtypes, sizes, strides, flags of results, and which are inputs. gradients: of the leaves;
    None where the backward pass raises."""

    error: str | None
    kinds: list[Any]
    values: list[torch.Tensor]
    gradients: list[torch.Tensor | None] | None = None
    message: str = ""

    @property
    def has_nan(self) -> bool:
        return any(bool(value.isnan().any()) for value in self.values if value.is_floating_point())

    def refuses_more_than(self, other: Outcome) -> bool:
        """Whether this call, or its backward pass alone, raises an error of autograd's which the
        other does not."""
        if other.error is not None:
            return False
        return self.error == "RuntimeError" or (
            self.error is None and self.gradients is None and other.gradients is not None
        )


def outcome(fn: Callable[..., Any], program: Program, pattern: str, seed: int) -> Outcome:
    """One call on fresh inputs, gradients, what writing into its results changes, and the state it
    leaves the random numbers in."""
    torch.manual_seed(seed)
    inputs = Inputs(program, pattern, seed)
    given = program.arguments(inputs.views)
    if program.mode == "leaves":
        for number, view in enumerate(inputs.views):
            if number % 2 == seed % 2 and view.is_leaf and not view._is_view():
                view.requires_grad_()
        inputs.leaves = [view for view in inputs.views if view.requires_grad]
    try:
        results = fn(*given)
    except Exception as error:
        values = [*inputs.snapshot(), random_state(program)]
        return Outcome(type(error).__name__, [], values, message=str(error).partition("\n")[0])
    drawn = random_state(program)
    kinds = [kind(item, inputs.views) for item in results] + [
        kind(item, inputs.views) for item in inputs.views
    ]
    values = [drawn, *inputs.snapshot(), *(item.detach().clone() for item in results)]
    grads = (
        gradients(results, inputs.leaves) if program.mode != "inference" and inputs.leaves else []
    )
    with torch.no_grad():
        for item in results:
            try:
                item.detach().fill_(77)
            except RuntimeError as error:
                kinds.append(str(error)[:60])
            values += inputs.snapshot() + [other.detach().clone() for other in results]
    return Outcome(None, kinds, values, grads)


def random_state(program: Program) -> torch.Tensor:
    """The state of the random numbers of the program's device and of the CPU."""
    states = [torch.get_rng_state()]
    if program.device != "cpu":
        states.append(torch.cuda.get_rng_state())
    return torch.cat(states)


def kind(item: torch.Tensor, views: list[torch.Tensor]) -> Any:
    strides = (
        tuple(stride for stride, size in zip(item.stride(), item.shape, strict=True) if size > 1)
        if item.numel()
        else ()
    )
    same = next((number for number, view in enumerate(views) if view is item), -1)
    return item.dtype, tuple(item.shape), strides, item.requires_grad, same


def gradients(results: Any, leaves: list[torch.Tensor]) -> list[torch.Tensor | None] | None:
    ends = [item for item in results if item.requires_grad and item.is_floating_point()]
    if not ends:
        return []
    try:
        weights = [
            torch.arange(1, item.numel() + 1, dtype=item.dtype, device=item.device).reshape(
                item.shape
            )
            for item in ends
        ]
        total = sum(
            (item * weight).sum().double() for item, weight in zip(ends, weights, strict=True)
        )
        return [
            None if grad is None else grad.clone()
            for grad in torch.autograd.grad(total, leaves, allow_unused=True)
        ]
    except RuntimeError:
        return None


def difference(one: Outcome, other: Outcome, exact: bool) -> str | None:
    """How a compiled call differs from eager's. Which of two tensors a backward pass keeps, so that
    writing into it later is an error, is a compiler's choice: gradients are compared where both can
    be had."""
    if one.error != other.error:
        return f"raises {one.error} {one.message}, eager {other.error} {other.message}"
    if one.kinds != other.kinds:
        return f"{one.kinds}, eager {other.kinds}"
    if exact and (one.gradients is None) != (other.gradients is None):
        return "only one backward pass raises"
    mine, eagers = list(one.values), list(other.values)
    if one.gradients is not None and other.gradients is not None:
        if [grad is None for grad in one.gradients] != [grad is None for grad in other.gradients]:
            return "gradients that are None differ"
        mine += [grad for grad in one.gradients if grad is not None]
        eagers += [grad for grad in other.gradients if grad is not None]
    for number, (left, right) in enumerate(zip(mine, eagers, strict=True)):
        if left.shape != right.shape:
            return f"value {number} has sizes {tuple(left.shape)}, eager {tuple(right.shape)}"
        if not torch.equal(left, right) and not torch.allclose(
            left.double(), right.double(), 0.0 if exact else 1e-5, 0.0, equal_nan=True
        ):
            apart = (left != right).reshape(-1).nonzero().reshape(-1)[:8].tolist()
            return f"value {number} at {apart}: {left.reshape(-1)[apart].tolist()}, eager {right.reshape(-1)[apart].tolist()}"
    return None


def examine(program: Program, backend: str, dynamic: bool | None = None) -> str | None:
    """A difference between eager and the backend, in words."""
    file = f"<aliasing {hash(program.source)}>"
    lines = program.source.splitlines(keepends=True)
    linecache.cache[file] = len(program.source), None, lines, file
    function = function_of(program.source, file)
    try:
        with framejit.config.patch(strict=True, recompile_limit=64):
            name, options = VARIANTS.get(backend, (backend, None))
            handle = framejit.compile(function, backend=name, options=options, dynamic=dynamic)
        for pattern, seed in program.calls:
            expected = outcome(function, program, pattern, seed)
            actual = outcome(handle, program, pattern, seed)
            refused = expected.error is not None or backend == "inductor"  # fails on some graphs
            if refused and actual.error == "BackendError":
                # raised in the course of compiling, as `strict` asks: without it the call is eager's
                lenient = framejit.compile(function, backend=name, options=options, dynamic=dynamic)
                actual = outcome(lenient, program, pattern, seed)
            candidates = [expected]
            if expected.refuses_more_than(actual):
                candidates += [
                    outcome(function_of(other.source, "<alternative>"), other, pattern, seed)
                    for other in program.alternatives(pattern, seed)
                ]
            found = [
                promised(actual, one, program, pattern, backend, dynamic) for one in candidates
            ]
            if None not in found:
                return f"{pattern} ({seed}): {found[0]}"
    finally:
        linecache.cache.pop(file, None)
    return None


def promised(
    actual: Outcome,
    expected: Outcome,
    program: Program,
    pattern: str,
    backend: str,
    dynamic: bool | None,
) -> str | None:
    """How a compiled call differs from eager's in what is promised."""
    compiling = backend != "eager"
    if program.shows_bits and expected.has_nan and compiling:
        actual = replace(actual, values=expected.values)
    # a backward pass of a compiler's keeps what it chooses
    free = compiling and program.hides_writes(pattern, dynamic)
    if free or program.changes_metadata or program.writes_lists:
        actual = replace(actual, gradients=expected.gradients)
    return difference(actual, expected, not compiling)


def differs_in_torch_compile(program: Program) -> bool:
    """Whether torch.compile differs from eager too: what torch's compiler does to a graph is not
    the capture's fault."""
    torch._dynamo.reset()
    function = function_of(program.source, "<aliasing>")
    compiled = torch.compile(function, options=VARIANTS["inductor"][1])
    return any(
        difference(
            outcome(compiled, program, pattern, seed),
            outcome(function, program, pattern, seed),
            exact=False,
        )
        is not None
        for pattern, seed in program.calls
    )


def is_undefined(program: Program) -> bool:
    """Whether eager's results on a GPU are undefined: a `_foreach` operator's kernel writes its
    tensors in any order, which shows where they overlap; what dropout draws depends on whether the
    memory is aligned; an index out of bounds ends the process."""
    function = function_of(program.source, "<aliasing>")
    on_cpu = replace(program, device="cpu")
    return any(name in program.source for name in ("_foreach", "dropout")) or any(
        outcome(function, on_cpu, pattern, seed).error == "IndexError"
        for pattern, seed in program.calls
    )


def function_of(source: str, name: str) -> Callable[..., Any]:
    """The function that a program's text defines."""
    namespace: dict[str, Any] = {"torch": torch}
    exec(compile(source, name, "exec"), namespace)
    function: Callable[..., Any] = namespace["program"]
    return function


def one(
    seed: int, backend: str, dynamic: bool | None = None, device: str = "cpu"
) -> tuple[Program, str | None]:
    """The program of a seed, and a difference."""
    program = replace(write(Random(seed)), device=device)
    try:
        if device != "cpu" and is_undefined(program):
            return program, None
        return program, examine(program, backend, dynamic)
    except Exception:
        return program, traceback.format_exc()[-1500:]


def reduced(program: Program, backend: str) -> Program:
    """The same with lines and calls left out as long as it still differs."""

    def sort(candidate: Program) -> str:
        try:
            found = examine(candidate, backend)
        except Exception as error:
            return type(error).__name__
        return "equal" if found is None else re.sub(r"^[^:]*: |[^a-z]", "", found[:40])

    sought = sort(program)

    def differs(candidate: Program) -> bool:
        return sort(candidate) == sought

    def smaller(now: Program) -> Iterator[Program]:
        head, *lines = now.source.splitlines()
        for number in range(len(lines) - 1):
            yield replace(
                now, source="\n".join([head, *lines[:number], *lines[number + 1 :]]) + "\n"
            )
        for number in range(len(now.calls)):
            if len(now.calls) > 1:
                yield replace(now, calls=now.calls[:number] + now.calls[number + 1 :])

    while True:
        found = next(filter(differs, smaller(program)), None)
        if found is None:
            return program
        program = found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=300)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--backend", default="eager")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument(
        "--dynamic", action="store_true", default=None, help="sizes are symbols from the first call"
    )
    parser.add_argument("--device", default="cpu", help="where the memory is: cpu, cuda")
    parser.add_argument("--show", action="store_true", help="print the program of the first seed")
    parser.add_argument("--reduce", action="store_true", help="make programs that differ smaller")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if chosen.show:
        print(write(Random(chosen.first)))
    started, different, torchs, done = time.perf_counter(), 0, 0, 0
    for done, seed in enumerate(range(chosen.first, chosen.first + chosen.programs), 1):
        program, found = one(seed, chosen.backend, chosen.dynamic, chosen.device)
        if found is not None and chosen.backend == "inductor" and differs_in_torch_compile(program):
            torchs += 1
            print(f"seed {seed}: torch.compile differs too: {found[:200]}", flush=True)
        elif found is not None:
            different += 1
            shown = reduced(program, chosen.backend) if chosen.reduce else program
            print(
                f"seed {seed}: {found[-900:]}\n{shown.layouts} {shown.dtype} {shown.mode} {shown.calls}\n{shown.source}",
                flush=True,
            )
        if done % 200 == 0:
            print(
                f"{done} programs, {different} different, {time.perf_counter() - started:.0f} s",
                flush=True,
            )
            framejit.reset()
        if time.perf_counter() - started > chosen.seconds:
            break
    print(
        f"end: {chosen.backend}: {done} programs from seed {chosen.first}, {different} different"
        + (f", {torchs} as in torch.compile" if torchs else ""),
        flush=True,
    )
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
