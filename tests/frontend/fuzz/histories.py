"""Random programs about which tensor has a gradient history: views, detached tensors and `.data`,
written with and without a history, before and behind graph breaks; then the caller writes too.

Each program is run compiled and in eager, twice: values, strides, which tensors require a gradient,
and the gradients of everything that is returned.

    python tests/frontend/fuzz/histories.py --programs 2000 --backend native
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

BREAK = "print(end='')"
VIEWS = (
    "{v}[1:]", "{v}[:-1]", "{v}[::2]", "{v}.view_as({v})", "{v}.detach()", "{v}.data", "{v}[None][0]",
    "{v}.expand_as({v})", "{v}.reshape(-1)", "{v}.detach()[1:]", "{v}.chunk(2)[0].detach()",
    "{v}.contiguous()", "{v}.flip(0)", "{v} * 2", "{v}.clone()", "torch.zeros(4)", "{v}.to(torch.float32)",
    "{v}.t()", "{v}.unflatten(0, (-1, 1))[:, 0]",
)  # fmt: skip
WRITES = (
    "{v}.add_(1)", "{v}.zero_()", "{v}.mul_({w}.sum())", "{v}[0] = {w}.mean()", "{v} += {w}.max()",
    "{v}.copy_({w}.sum().expand_as({v}))", "{v}[:1].mul_({w}.mean())",
    "with torch.no_grad(): {v}.mul_(2)", "torch.relu_({v})",
)  # fmt: skip
NAMES = ("a", "b", "c")  # with a history, a leaf or not, without one


def inputs(random: Random) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The arguments of a program, and the leaves that their gradients are taken by."""
    leaf = torch.arange(4.0, requires_grad=True)
    other = torch.ones(4, requires_grad=random.random() < 0.5)
    return [leaf * 1, other, torch.arange(1.0, 5)], [leaf, *[other] * other.requires_grad]


def write(seed: int) -> str:
    """The source of a program whose statements, one after the other, do not raise in eager."""
    random = Random(seed)
    names, lines = list(NAMES), []
    known: dict[str, Any] = dict(zip(NAMES, inputs(random)[0], strict=True), torch=torch)
    for _ in range(random.randint(3, 9)):
        kind = random.random()
        if kind < 0.15:
            lines.append(BREAK)
            continue
        for _ in range(8):
            v, w = random.choice(names), random.choice(names)
            new = f"v{len(names)}" if kind < 0.65 else ""
            forms = VIEWS if new else WRITES
            line = f"{new} = " * bool(new) + random.choice(forms).format(v=v, w=w)
            if runs(line, known):
                lines.append(line)
                names += [new] * bool(new)
                break
    returned = random.sample(names, min(len(names), random.randint(1, 4)))
    body = "".join(f"    {line}\n" for line in [*lines, f"return {', '.join(returned)},"])
    return f"def program({', '.join(NAMES)}):\n{body}"


def runs(line: str, known: dict[str, Any]) -> bool:
    """Whether a statement can be executed, and its tensors read afterwards."""
    try:
        exec(line, known)
        for value in known.values():
            if isinstance(value, torch.Tensor):
                value.sum()
    except RuntimeError:
        return False
    return True


def outcome(program: long_run.Program, seed: int) -> tuple[Any, Any]:
    """What a call does, and the gradients; None for what raises."""
    random = Random(seed)
    given, leaves = inputs(random)
    try:
        results = program(*given)
        if random.random() < 0.4:
            results[0].mul_(2)
        shown = [
            (item.detach().tolist(), item.stride(), item.requires_grad, (item * 1).requires_grad)
            for item in (*results, *given)
        ]
        ends = [item for item in results if item.requires_grad]
        total = sum(
            ((item * (place + 1)).sum() for place, item in enumerate(ends)), torch.zeros(())
        )
    except RuntimeError:
        return None, None
    if not ends:
        return shown, []
    try:
        gradients = torch.autograd.grad(total, leaves, allow_unused=True)
    except RuntimeError:  # which tensors a backward pass keeps is a compiler's choice
        return shown, None
    return shown, [None if gradient is None else gradient.tolist() for gradient in gradients]


def examine(seed: int, backend: str) -> str | None:
    """A difference between eager and the backend, in words; programs that raise in eager are not
    compared."""
    program = long_run.function_of(write(seed), seed)
    with framejit.config.patch(strict=True):
        compiled = framejit.compile(program, backend=backend)
        for call in range(2):
            expected, eagers = outcome(program, 2 * seed + call)
            if expected is None:
                continue
            actual, ours = outcome(compiled, 2 * seed + call)
            if actual != expected:
                return f"call {call}: {actual}, eager {expected}"
            if None not in (ours, eagers) and ours != eagers:
                return f"call {call}: gradients {ours}, eager {eagers}"
    return None


if __name__ == "__main__":
    long_run.main(__doc__, write, examine)
