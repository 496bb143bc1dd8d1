"""A backend for framejit in a package of its own: it counts the operations of each graph, and runs it as it is.

Installing this package (`pip install ./examples/plugin_backend`) is all that it takes: `framejit.compile(f, backend="counting")`
finds it by its entry point. A function with torch.compile's signature and nothing more would do; the decorator says what it needs.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import framejit
import torch.fx

counted: list[int] = []


@framejit.register_backend("counting", devices=("cpu", "cuda"))
def counting(
    gm: torch.fx.GraphModule, example_inputs: list[Any], *, limit: int = 1000, report: Callable[[str], Any] = print
) -> Callable[..., Any]:
    """limit: an option of compile(); graphs with more operations are reported."""
    operations = sum(node.op.startswith("call_") for node in gm.graph.nodes)
    counted.append(operations)
    if operations > limit:
        report(f"{operations} operations are more than {limit}")
    return gm.forward
