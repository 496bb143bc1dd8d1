"""A backend of one's own: it rewrites the captured graph, x * 1 and x + 0 go, and runs what is left.

    python examples/custom_backend.py

Any function (gm, example_inputs) -> callable is a backend, those written for torch.compile too. Exits with 1 when a result
differs from eager's.
"""
from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from typing import Any

import framejit
import torch
import torch.fx
from rich.console import Console

console = Console()
NEUTRAL = {operator.mul: 1, operator.add: 0, torch.mul: 1, torch.add: 0}


@framejit.register_backend("tidy", devices=("cpu", "cuda"))
def tidy(
    gm: torch.fx.GraphModule, example_inputs: list[Any], *, verbose: bool = False, report: Callable[[str], Any] = print
) -> Callable[..., Any]:
    """verbose: an option of compile(); prints the graph. What is given to `report` shows in explain()."""
    dropped = 0
    for node in list(gm.graph.nodes):
        if node.op == "call_function" and node.target in NEUTRAL and len(node.args) == 2 and node.args[1] is not None:
            first, second = node.args
            if isinstance(first, torch.fx.Node) and type(second) is int and second == NEUTRAL[node.target]:
                node.replace_all_uses_with(first)
                gm.graph.erase_node(node)
                dropped += 1
    gm.recompile()
    report(f"{dropped} operations that do nothing were dropped")
    if verbose:
        print(gm.code)
    return gm.forward


def scale_and_shift(x: torch.Tensor, scale: int, shift: int) -> torch.Tensor:
    return (x.sin() * scale + shift).relu()


def main() -> int:
    x = torch.randn(5)
    compiled = framejit.compile(scale_and_shift, backend="tidy", options={"verbose": True})
    got = compiled(x, 1, 0)
    console.print(compiled.framejit.explain())
    console.print(str(framejit.list_backends()["tidy"]))
    return 0 if torch.equal(got, scale_and_shift(x, 1, 0)) else 1


if __name__ == "__main__":
    sys.exit(main())
