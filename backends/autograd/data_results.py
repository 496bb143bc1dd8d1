"""Results that are `x.data`, which share x's memory but not its version counter.

In: a captured graph and its compiled form. Out: a callable whose results have version counters as
in eager.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.fx

from ...factory_call import record_factory
from ..graph.gradient_history import needs_gradient
from ..graph.hidden_writes import SHOWN_DATA, data_nodes
from ..graph.memory import plain_memory_at


def data_results(gm: torch.fx.GraphModule) -> list[int]:
    """Positions of results that are `x.data` or a view of it."""
    made = data_nodes(gm.graph.nodes)
    results: Any = gm.graph.output_node().args[0]
    return [place for place, node in enumerate(results) if node in made]


def shows_data_of_inputs(gm: torch.fx.GraphModule) -> bool:
    """Whether such a result, of the graph or created after it, shares memory with an input that has
    a gradient. If the program writes into it before the backward pass, a compiled backward pass may
    read the new content of that input; eager has saved what it needs."""
    inputs = list(filter(needs_gradient, gm.graph.find_nodes(op="placeholder")))
    if any(SHOWN_DATA in node.meta for node in inputs):
        return True
    memories = {plain_memory_at(node) for node in inputs} - {None}
    results: Any = gm.graph.output_node().args[0]
    return any(plain_memory_at(results[place]) in memories for place in data_results(gm))


def with_own_versions(compiled: Callable[..., Any], places: list[int]) -> Callable[..., Any]:
    """Gives the results at `places`, which are `x.data` in eager, version counters of their own.
    The functional graph returns views of x there: a write into one would count as a write into x,
    and the backward pass would raise."""

    def call(*args: Any) -> Any:
        results = list(compiled(*args))
        for place in places:
            results[place] = results[place].data
        return results

    return record_factory(call, with_own_versions, compiled, places)
