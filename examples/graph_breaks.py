"""Graph breaks and how to fix them: a step with four of them, and the same step in one graph.

    python examples/graph_breaks.py

Exits with 1 when the two differ, or when the second one breaks.
"""
from __future__ import annotations

import sys
import time

import framejit
import torch
from rich.console import Console

console = Console()


@framejit.compile
def with_breaks(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Each break costs its own statement; what stands between them is captured."""
    started = time.perf_counter()  # 1: a clock is nobody's tensor work
    y = (x @ weight).relu()
    largest = y.max().item()  # a number taken from a tensor stays in the graph
    if y.sum() > 0:  # 2: a branch on a tensor's value
        y = y / largest
    print(f"normalised in {time.perf_counter() - started:.3f} s")  # 3 and 4: the clock, and printing
    return y.tanh()


@framejit.compile(fullgraph=True)  # an error, should a break come back
def one_graph(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The clock and the message moved out, the number stays a tensor, the branch became torch.where."""
    y = (x @ weight).relu()
    y = torch.where(y.sum() > 0, y / y.max(), y)
    return y.tanh()


def main() -> int:
    torch.manual_seed(0)
    x, weight = torch.randn(32, 16), torch.randn(16, 8)
    wanted = with_breaks(x, weight)
    report = with_breaks.framejit.explain()
    console.rule("with breaks")
    console.print(report)
    started = time.perf_counter()
    got = one_graph(x, weight)
    print(f"normalised in {time.perf_counter() - started:.3f} s")
    console.rule("one graph")
    fixed = one_graph.framejit.explain()
    console.print(f"{len(fixed.graphs)} graph, {fixed.ops} ops, {len(fixed.breaks)} breaks")
    equal = torch.allclose(got, wanted, rtol=1e-5, atol=1e-6)
    if not equal:
        console.print("[red]the results differ")
    return 0 if equal and not fixed.breaks else 1


if __name__ == "__main__":
    sys.exit(main())
