"""Results whose history a backward() in the graph has freed: `loss` in
`loss.backward(); return loss`.

The graph returns them detached, so that no gradient flows back through it. Afterwards they get a
history that raises what torch raises where a backward pass comes to freed operations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx
from torch.autograd.function import once_differentiable

from ...factory_call import record_factory
from ...records import record
from .gradient_history import leaves_reached_from, needs_gradient

CALLED_AT = "backward_called_at"  # in the meta of a node: the position of the call of backward()
AGAIN = "backward through the graph a second time"  # part of torch's message
MESSAGE = (
    "Trying to backward through the graph a second time (or directly access saved tensors after "
    "they have already been freed). Saved intermediate values of the graph are freed when you call "
    ".backward() or autograd.grad(). Specify retain_graph=True if you need to backward through "
    "the graph a second time or if you need to access saved tensors after calling backward."
)


def first_backward(nodes: Sequence[torch.fx.Node]) -> torch.fx.Node | None:
    """The first call of backward() in a graph."""
    return next((node for node in nodes if CALLED_AT in node.meta), None)


def is_freed(fake: torch.Tensor) -> bool:
    """Whether a backward pass from a fake tensor comes to operations that were freed."""
    leaves = leaves_reached_from(fake)
    try:
        torch.autograd.grad(
            fake, leaves, torch.empty_like(fake), retain_graph=True, allow_unused=True
        )
    except RuntimeError as error:
        return AGAIN in str(error)
    return False


@record
class FreedResults:
    """kept: what the graph returns instead of its results. freed: positions of those that have a
    freed history."""

    kept: tuple[torch.fx.Node, ...]
    freed: tuple[int, ...]

    def wrap(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """A function that runs the graph and returns its results."""
        return then_free(run, self.freed) if self.freed else run


def find_freed_results(
    nodes: list[torch.fx.Node], outputs: Sequence[torch.fx.Node]
) -> FreedResults:
    """Adds to the graph what detaches its results that have a history. It is known that all of
    these are freed, if the graph has a call of backward()."""
    backward = first_backward(nodes)
    if backward is None:
        return FreedResults(tuple(outputs), ())
    freed = tuple(index for index, node in enumerate(outputs) if needs_gradient(node))
    kept = list(outputs)
    for index in freed:
        kept[index] = add_detach(backward.graph, outputs[index])
        nodes.append(kept[index])
    return FreedResults(tuple(kept), freed)


def add_detach(graph: torch.fx.Graph, node: torch.fx.Node) -> torch.fx.Node:
    made = graph.call_method("detach", (node,))
    made.meta.update(node.meta, example_value=node.meta["example_value"].detach())
    return made


def then_free(run: Callable[..., Any], freed: tuple[int, ...]) -> Callable[..., Any]:
    """A function that runs a graph and gives those of its results a freed history."""

    def call(*args: Any) -> Any:
        results = list(run(*args))
        with torch.enable_grad():
            for index in freed:
                bare = results[index].detach()  # another result may be the same tensor
                results[index] = Freed.apply(bare, torch.empty(0, requires_grad=True))
        return tuple(results)

    return record_factory(call, then_free, run, freed)


class Freed(torch.autograd.Function):
    """The history of a tensor through which a backward pass has gone."""

    @staticmethod
    def forward(ctx: Any, result: torch.Tensor, anchor: torch.Tensor) -> torch.Tensor:
        ctx.mark_dirty(result)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        raise RuntimeError(MESSAGE)
