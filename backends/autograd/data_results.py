"""Results that are `x.data`: they share x's memory, and not its version.

In: a captured graph and what was compiled of it. Out: a callable whose results have versions as in
eager.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.fx

from ..graph.hidden_writes import data_nodes
from ..graph.passes.memory import plain_memory_at


def data_results(gm: torch.fx.GraphModule) -> list[int]:
    """Positions of the results that are `x.data`, or views of it."""
    made = data_nodes(gm.graph.nodes)
    results: Any = gm.graph.output_node().args[0]
    return [place for place, node in enumerate(results) if node in made]


def shows_data_of_inputs(gm: torch.fx.GraphModule) -> bool:
    """Whether such a result lies in the memory of an input with a gradient. A program that writes
    into it before the backward pass changes what a compiled backward pass may read from that input;
    eager's has kept what it needs."""
    inputs = {
        plain_memory_at(node)
        for node in gm.graph.find_nodes(op="placeholder")
        if getattr(node.meta.get("example_value"), "requires_grad", False)
    } - {None}
    results: Any = gm.graph.output_node().args[0]
    return any(plain_memory_at(results[place]) in inputs for place in data_results(gm))


def with_own_versions(compiled: Callable[..., Any], places: list[int]) -> Callable[..., Any]:
    """Gives results at `places`, which are `x.data` in eager, a version counter of their own. A
    functional graph returns a view of x there; writing into it would count as a write into x, and
    the backward pass would raise."""

    def call(*args: Any) -> Any:
        results = list(compiled(*args))
        for place in places:
            results[place] = results[place].data
        return results

    return call
