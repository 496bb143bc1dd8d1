"""Results that are another result without its history, such as the second one of
`return loss, loss.detach()`: they are detached after the graph has run.

Without them the graph's results share no memory, so it can be differentiated operator by operator.
Also, aot_autograd would create such a result from the wrong tensor where the other result is itself
a view.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx

from ...factory_call import record_factory
from ...records import record
from .fake_values import fake_of
from .hidden_writes import data_nodes
from .memory import plain_memory_at
from .wrappers import is_wrapper

# how a result follows from one of the graph's: its position, whether it is detached, and whether it
# has a version counter of its own, as `.data` has
Place = tuple[int, bool, bool]


@record
class DetachedResults:
    """The results that a graph itself returns, where others are those results detached. kept: the
    results that it returns. places: how all results follow from these."""

    kept: tuple[torch.fx.Node, ...]
    places: tuple[Place, ...]

    def wrap(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """A function that runs the graph and returns all results."""
        return then_detach(run, self.places) if any(place[1] for place in self.places) else run


def find_detached_results(
    nodes: Sequence[torch.fx.Node], outputs: Sequence[torch.fx.Node]
) -> DetachedResults:
    """The results that the graph computes itself, and for each of all results which of these it is,
    whether detached, and whether by `.data`."""
    if not outputs:
        return DetachedResults((), ())
    inputs = set(map(plain_memory_at, outputs[0].graph.find_nodes(op="placeholder")))
    with_history = {
        layout_of(node): node
        for node in outputs
        if is_made_by(node, inputs) and node.meta["example_value"].requires_grad
    }
    others = {
        node: with_history[layout_of(node)]
        for node in outputs
        if is_made_by(node, inputs)
        and not node.meta["example_value"].requires_grad
        and layout_of(node) in with_history
    }
    kept = tuple(node for node in outputs if node not in others)
    position = {node: number for number, node in enumerate(kept)}
    data = data_nodes(nodes) if others else set()
    return DetachedResults(
        kept,
        tuple((position[others.get(node, node)], node in others, node in data) for node in outputs),
    )


def is_made_by(node: torch.fx.Node, inputs: set[Any]) -> bool:
    """Whether a node is a plain tensor of known sizes on memory that the graph allocates."""
    fake = fake_of(node)
    return (
        isinstance(fake, torch.Tensor)
        and not is_wrapper(type(fake))
        and plain_memory_at(node) not in (None, *inputs)
        and all(
            type(number) is int for number in (*fake.shape, *fake.stride(), fake.storage_offset())
        )
    )


def layout_of(node: torch.fx.Node) -> tuple[Any, ...]:
    fake = node.meta["example_value"]
    return (
        plain_memory_at(node),
        tuple(fake.shape),
        fake.stride(),
        fake.storage_offset(),
        fake.dtype,
        fake.is_conj(),
        fake.is_neg(),
    )


def then_detach(run: Callable[..., Any], places: tuple[Place, ...]) -> Callable[..., Any]:
    """A function that runs a graph and returns, for each of `places`, that result or the same
    without its history."""

    def call(*args: Any) -> Any:
        results = run(*args)
        return tuple(
            (results[at].data if own_counter else results[at].detach()) if apart else results[at]
            for at, apart, own_counter in places
        )

    return record_factory(call, then_detach, run, places)
