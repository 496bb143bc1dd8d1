"""Results that are `x.data`: they share x's memory, and not its version.

In: a captured graph and what was compiled of it. Out: a callable whose results have versions as in
eager.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.fx

from ..graph.mutations import is_data
from ..graph.passes.memory import plain_memory_at


def data_results(gm: torch.fx.GraphModule) -> list[int]:
    """Positions of the results that are `x.data`, or views of it."""
    made = set[torch.fx.Node]()
    for node in gm.graph.nodes:
        if is_data(node) or (made.intersection(node.all_input_nodes[:1]) and is_view(node)):
            made.add(node)
    results: Any = gm.graph.output_node().args[0]
    return [place for place, node in enumerate(results) if node in made]


def shows_data_of_inputs(gm: torch.fx.GraphModule) -> bool:
    """Whether such a result is in the memory of an input with a gradient. Who writes into it before
    the backward pass changes what a compiled one may read again, and eager's does not."""
    inputs = {
        plain_memory_at(node)
        for node in gm.graph.find_nodes(op="placeholder")
        if getattr(node.meta.get("example_value"), "requires_grad", False)
    } - {None}
    results: Any = gm.graph.output_node().args[0]
    return any(plain_memory_at(results[place]) in inputs for place in data_results(gm))


def is_view(node: torch.fx.Node) -> bool:
    """Whether a node's tensor is in the memory of its first input."""
    memory = plain_memory_at(node)
    return memory is not None and memory == plain_memory_at(node.all_input_nodes[0])


def with_own_versions(compiled: Callable[..., Any], places: list[int]) -> Callable[..., Any]:
    """A compiled function of whose results some are `x.data`: a functional graph returns a view of
    x there, and who writes into it later would change the version of x, which backward passes
    check."""

    def call(*args: Any) -> Any:
        results = list(compiled(*args))
        for place in places:
            results[place] = results[place].data
        return results

    return call
