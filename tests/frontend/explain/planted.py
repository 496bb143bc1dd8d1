"""A program of about 500 lines with one break planted in each of its 20 stages;
`text(planted=False)` is the same without them.

A planted statement is one line that can go without changing what the program computes.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import indent


@dataclass(frozen=True)
class Plant:
    """A statement that breaks, the id that the break must have, and lines around it: `before` it,
    and `inside` of what it stands."""

    id: str
    statement: str
    before: str = ""
    inside: str = ""


PLANTS = (
    Plant("output", "print('one', file=sink)"),
    Plant("requested", "framejit.graph_break()"),
    Plant("disabled-call", "unseen(3)"),
    Plant("data-dependent-value", "top.item()", "top = y.abs().max()"),
    Plant("data-dependent-branch", "y = y + 1 if over else y", "over = y.sum() > 1e9"),
    Plant("data-dependent-shape", "torch.nonzero(chosen)", "chosen = y > 0"),
    Plant("fake-tensor", "opaque(y)"),
    Plant("class-made", "class Made: factor = 3"),
    Plant("generator", "waiting(1)"),
    Plant("unknown-call", "os.getcwd()"),
    Plant("output", "print('in a loop', file=sink)", inside="for turn in range(2):"),
    Plant("output", "print('in a with', file=sink)", inside="with torch.no_grad():"),
    Plant("requested", "framejit.graph_break()", inside="try:"),
    Plant("unknown-call", "sink.write(f'in a property {tools.loud}')"),
    Plant("data-dependent-value", "float(mean)", "mean = y.mean()"),
    Plant("data-dependent-value", "small.tolist()", "small = y[:2]"),
    Plant("data-dependent-branch", "factor = 2 if over else 1", "over = (y > 1e9).any()"),
    Plant("unknown-call", "time.perf_counter_ns()"),
    Plant("disabled-call", "[unseen(n) for n in (1, 2)]"),
    Plant("unknown-call", "sys.stderr.write('')"),
)

HEAD = '''\
"""Twenty stages of arithmetic. One of them after the other."""
import io
import os
import sys
import time

import framejit
import torch

sink = io.StringIO()


@framejit.disable
def unseen(number):
    return number + 1


@torch.library.custom_op("planted::opaque", mutates_args=())
def opaque(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


async def waiting(seconds):
    yield seconds


class Tools:
    """What stages share."""

    scale = 0.5

    @property
    def loud(self):
        return self.scale * 2


tools = Tools()
'''

STAGE = '''

def stage_{number}(x):
    """Stage {number}: takes a vector and gives one of the same size."""
    factor = 1.0 + {number} / 100
    shift = {number} * 0.01
    names = ["a", "b", "c"]
    total = 0
    for name in names:
        total += len(name)
    y = x * factor
    y = y + shift
{body}
    z = torch.tanh(y)
    if total > 2:
        z = z + tools.scale
    pair = (z, total)
    z, count = pair
    result = z * count
    result = result / 3
    return result
'''

TAIL = """

@framejit.compile
def run(x):
{calls}
    return x


def main(times):
    x = torch.linspace(-1, 1, 8)
    for _ in range(times):
        result = run(x)
    return result


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
"""


def body(plant: Plant, planted: bool) -> str:
    lines = [plant.before] if plant.before else []
    statement = plant.statement if planted else "pass"
    if plant.inside:
        lines += [plant.inside, f"    {statement}", "    y = y * 1.0"]
        lines += ["finally:", "    shift = 0"] if plant.inside == "try:" else []
    else:
        lines.append(statement)
    return indent("\n".join(lines), "    ")


def text(planted: bool = True) -> str:
    stages = "".join(
        STAGE.format(number=number, body=body(plant, planted))
        for number, plant in enumerate(PLANTS, 1)
    )
    calls = "\n".join(f"    x = stage_{number}(x)" for number in range(1, len(PLANTS) + 1))
    return HEAD + stages + TAIL.format(calls=calls)


def places() -> list[tuple[int, str]]:
    """Line and id of each planted break, in their order."""
    lines, found, start = text().split("\n"), [], 0
    for number, plant in enumerate(PLANTS, 1):
        start = lines.index(f"def stage_{number}(x):", start)
        line = next(n for n in range(start, len(lines)) if lines[n].strip() == plant.statement)
        found.append((line + 1, plant.id))
    return found
