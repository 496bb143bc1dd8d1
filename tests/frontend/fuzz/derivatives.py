"""Random programs that take derivatives themselves: `torch.autograd.grad` by leaves, by what they
have calculated and by what was calculated before, `backward()`, reads of `.grad`, with breaks.

Each program is run compiled and in eager, three times: values, which tensors require a gradient,
`.grad` of the leaves, and the gradients of everything that is returned.

    python tests/frontend/fuzz/derivatives.py --programs 2000 --backend native
"""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random
from typing import Any

import framejit
import torch

if __package__:
    from . import long_run
else:  # run as a script
    sys.path.insert(0, str(Path(__file__).parent))
    import long_run

NAMES = ("x", "y", "w")  # a leaf, calculated from it (but in one call), a parameter
CALLS = 3
VALUES = (
    "{v} * {w}", "{v} + {w} * 2", "{v}.sin()", "({v} * {v}).cumsum(0)", "{v}[1:].sum() + {w}",
    "torch.stack([{v}, {w}]).sum(0)", "{v}.exp() * 0.1", "{v}.view(-1) * 3",
    "torch.nn.functional.dropout({v}, 0.5) * {w}", "{v}.detach()", "{v}.detach().requires_grad_()",
    "{v}.detach().clone().requires_grad_()",
)  # fmt: skip
STATEMENTS = (
    "with torch.no_grad(): {new} = {v} * 2 + {w}",
    "{new} = {v}.clone(); {new}.mul_({w})",
    "{new} = torch.zeros(3) if x.grad is None else x.grad * 1",
    "{new} = torch.zeros(3) if w.grad is None else w.grad * 1",
)
EFFECTS = (
    "({v} * {w}).sum().backward(retain_graph=True)",
    "({v} * {w}).sum().backward()",
    "({v} * {w}).sin().backward({w}.detach() + 1)",
    "x.grad = None",
    "w.grad = None",
    "with torch.no_grad(): w.add_({v}, alpha=0.1)",
    "print(end='')",
    "print(end='')",
)
GRAD = (
    "{new} = torch.autograd.grad(({v} * {v}).sum() * 2, [{by}], create_graph={create}, "
    "retain_graph=True, allow_unused=True)\n"
    "    {new} = sum((one for one in {new} if one is not None), torch.zeros(3))"
)


def write(seed: int) -> str:
    """The source of a program."""
    random = Random(seed)
    names, lines = list(NAMES), []
    for _ in range(random.randint(3, 9)):
        v, w, new = random.choice(names), random.choice(names), f"v{len(names)}"
        kind = random.random()
        if kind < 0.3:
            by = ", ".join(random.sample(names, random.choice((1, 1, 1, 2))))
            create = random.random() < 0.4
            lines.append(GRAD.format(new=new, v=v, by=by, create=create))
        elif kind < 0.65:
            lines.append(f"{new} = {random.choice(VALUES)}".format(v=v, w=w))
        elif kind < 0.8:
            lines.append(random.choice(STATEMENTS).format(new=new, v=v, w=w))
        else:
            lines.append(random.choice(EFFECTS).format(v=v, w=w))
            continue
        names.append(new)
    lines.append(f"return {', '.join(random.sample(names, 3))}")
    return f"def program({', '.join(NAMES)}):\n" + "".join(f"    {line}\n" for line in lines)


def outcome(program: long_run.Program, call: int) -> list[Any] | None:
    """What a call does, gradients last; None where it raises."""
    torch.manual_seed(call)
    x, w = torch.randn(3, requires_grad=True), torch.nn.Parameter(torch.randn(3))
    y = torch.randn(3, requires_grad=True) if call == 1 else x * x
    try:
        results = program(x, y, w)
    except RuntimeError:
        return None
    shown: list[Any] = [item.detach().clone() for item in (*results, w)]
    shown += [item.requires_grad for item in results]
    shown += [None if leaf.grad is None else leaf.grad.clone() for leaf in (x, w)]
    ends = [(item * (place + 1)).sum() for place, item in enumerate(results) if item.requires_grad]
    try:
        return [*shown, torch.autograd.grad(sum(ends), [x, y, w], allow_unused=True)]
    except (RuntimeError, TypeError):  # which tensors a backward pass keeps is a compiler's choice
        return [*shown, None]


def same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.shape == other.shape and torch.allclose(one, other, 1e-4, 1e-5, equal_nan=True)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return one is other


def examine(seed: int, backend: str) -> str | None:
    """A difference between eager and the backend, in words; calls that raise in eager are not
    compared."""
    program = long_run.function_of(write(seed), seed)
    with framejit.config.patch(strict=True, recompile_limit=32):
        compiled = framejit.compile(program, backend=backend)
        for call in range(CALLS):
            expected, actual = outcome(program, call), outcome(compiled, call)
            if expected is None:
                continue
            if actual is not None and None in (actual[-1], expected[-1]):
                actual, expected = actual[:-1], expected[:-1]
            if not same(actual, expected):
                return f"call {call}: {actual}, eager {expected}"
    return None


if __name__ == "__main__":
    long_run.main(__doc__, write, examine)
