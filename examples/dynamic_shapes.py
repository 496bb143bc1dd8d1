"""Sizes that vary: how many compiles a model needs for batches of many lengths, with and without a hint.

    python examples/dynamic_shapes.py

Exits with 1 when a result differs from eager's.
"""
from __future__ import annotations

import sys
from collections.abc import Callable

import framejit
import torch
from rich.console import Console
from rich.table import Table

console = Console()
LENGTHS = (7, 12, 5, 30, 19, 2, 64)


def attention_pool(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """(batch, length, width) -> (batch, width): softmax over the length, then a weighted mean."""
    scores = (x @ weight).softmax(1)
    return (x * scores.unsqueeze(-1)).sum(1) / x.shape[1]


def by_hand(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The same with a loop over the length: the loop is unrolled, so each length is a graph of its own."""
    total = torch.zeros_like(x[:, 0])
    scores = (x @ weight).softmax(1)
    for position in range(x.shape[1]):
        total = total + x[:, position] * scores[:, position, None]
    return total / x.shape[1]


def compiles(function: Callable[..., torch.Tensor], marked: bool = False, **how: bool) -> tuple[int, bool]:
    """How often a function is compiled for all lengths, and whether all results are eager's."""
    compiled = framejit.compile(function, backend="eager", **how)  # how often is asked here, not how fast
    weight, equal = torch.randn(16), True
    for length in LENGTHS:
        x = torch.randn(4, length, 16)
        if marked:
            framejit.mark_dynamic(x, 1)
        equal = equal and torch.allclose(compiled(x, weight), function(x, weight), rtol=1e-4, atol=1e-5)
    return compiled.framejit.compiles, equal


def main() -> int:
    torch.manual_seed(0)
    table = Table("", "compiles", "equal to eager", title=f"{len(LENGTHS)} lengths: {', '.join(map(str, LENGTHS))}", title_justify="left")
    cases = {
        "as it is: the second length makes that size a symbol": compiles(attention_pool),
        "mark_dynamic: a symbol from the start": compiles(attention_pool, marked=True),
        "dynamic=False: each length anew": compiles(attention_pool, dynamic=False),
        "a loop over the length: each length anew": compiles(by_hand),
    }
    for what, (count, equal) in cases.items():
        table.add_row(what, str(count), "yes" if equal else "[red]NO")
    console.print(table)
    return 0 if all(equal for _, equal in cases.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
