"""What autograd knows of the tensors of a captured graph: which require gradients, and which the
graph has given a history.

In: nodes with their fake tensors. Nothing is changed but the meta of inputs.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from contextlib import suppress
from functools import cache
from typing import Any

import torch
import torch.fx
from torch._C._autograd import CreationMeta, _get_creation_meta

from .fake_values import fake_of
from .memory import memory_of, plain_memory_at
from .node_targets import name_of

CROSS_ENTROPIES = ("cross_entropy", "log_softmax")


def needs_gradient(node: Any) -> bool:
    """Whether a node is a tensor that requires a gradient."""
    fake = fake_of(node)
    return isinstance(fake, torch.Tensor) and fake.requires_grad


def wants_gradients(gm: torch.fx.GraphModule) -> bool:
    """Whether gradients flow back through a captured graph: from a result, or from an input whose
    new content has a history."""
    written = map(gains_history, gm.graph.find_nodes(op="placeholder"))
    return any(map(needs_gradient, gm.graph.output_node().all_input_nodes)) or any(written)


def note_history(node: torch.fx.Node, fake: torch.Tensor) -> None:
    """Writes into an input's meta what autograd knows of it before the graph runs; writing into a
    view gives its base a history."""
    node.meta["grad_fn"] = fake.grad_fn
    node.meta["base_grad_fn"] = (
        fake._base.grad_fn
        if fake.requires_grad and fake._is_view() and fake._base is not None
        else None
    )


def gains_history(node: torch.fx.Node) -> bool:
    """Whether autograd has seen the graph write into an input."""
    return needs_gradient(node) and (
        lost_its_history(node) or fake_of(node).grad_fn is not node.meta.get("grad_fn")
    )


def comes_with_gradient(node: torch.fx.Node) -> bool:
    """Whether an input requires a gradient before the graph runs: a leaf that does so may not be
    written to where autograd looks."""
    return needs_gradient(node) and (
        node.meta.get("grad_fn") is not None or not gains_history(node)
    )


def values_that_eager_frees(graph: torch.fx.Graph) -> set[torch.fx.Node]:
    """The inputs and results of a captured graph of which eager saves nothing for the backward
    pass: the program may write into them before it, as an activation function does in place. Left
    out are parameters, which wait for an optimizer, and logits: keeping these instead of what eager
    saves of a cross entropy halves the memory, and who writes into them gets torch's error."""
    inputs = graph.find_nodes(op="placeholder")
    results = graph.output_node().all_input_nodes
    ends = {node.meta.get("grad_fn") for node in inputs}
    trained = [one for one in results if needs_gradient(one) and not lost_its_history(one)]
    starts = [start for one in trained if (start := fake_of(one).grad_fn) is not None]
    with torch._C._DisableTorchDispatch():  # reading what is saved makes plain tensors of fakes
        saved: set[int | None] = {
            memory
            for node in nodes_behind(*starts, ends=ends)
            if node not in ends
            for memory in saved_memories(node)
        }
    saved |= {None, *map(plain_memory_at, logits(graph))}
    return {
        node
        for node in (*inputs, *results)
        if plain_memory_at(node) not in saved
        and not (needs_gradient(node) and isinstance(fake_of(node), torch.nn.Parameter))
    }


def logits(graph: torch.fx.Graph) -> Iterator[torch.fx.Node]:
    """The arguments of cross entropies, and what these are converted from or views of."""
    for node in graph.nodes:
        given = list(node.args[:1]) if name_of(node) in CROSS_ENTROPIES else []
        while len(given) == 1 and isinstance(given[0], torch.fx.Node):
            yield given[0]
            given = [one for one in given[0].all_input_nodes if plain_memory_at(one) is not None]


def saved_memories(node: Any) -> Iterator[int]:
    """The memory of what a node of autograd's has saved for its backward pass."""
    kind: Any = type(node)
    for name in names_of_saved(kind):
        with suppress(RuntimeError):  # it was written since, or freed; or it has no memory
            item = getattr(node, name)
            items = item if isinstance(item, (tuple, list)) else [item]
            yield from [memory_of(one) for one in items if isinstance(one, torch.Tensor)]


@cache
def names_of_saved(cls: Any) -> list[str]:
    """The attributes with the tensors that a class of autograd nodes saves; custom functions have
    one. (Reading a number would fix one that varies.)"""
    if hasattr(cls, "saved_tensors"):
        return ["saved_tensors"]
    return [name.removeprefix("_raw") for name in dir(cls) if name.startswith("_raw_saved_")]


def gains_its_first_history(node: torch.fx.Node) -> bool:
    """Whether the graph gives a history to an input that comes with none."""
    return "grad_fn" in node.meta and needs_gradient(node) and not comes_with_gradient(node)


def leaves_reached_from(fake: torch.Tensor) -> list[torch.Tensor]:
    """The leaves that a backward pass from a tensor reaches, each once."""
    if fake.grad_fn is None:
        return [fake] if fake.requires_grad else []
    behind = nodes_behind(fake.grad_fn)
    return [node.variable for node in behind if hasattr(node, "variable")]


def nodes_behind(*starts: Any, ends: Container[Any] = ()) -> Iterator[Any]:
    """The autograd nodes that a backward pass runs from some nodes on, each once. ends: those
    past which it is not followed."""
    seen, todo = {*starts}, [*dict.fromkeys(starts)]
    while todo:
        node = todo.pop()
        yield node
        for following, _ in () if node in ends else node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                todo.append(following)


def lost_its_history(node: torch.fx.Node) -> bool:
    """Whether autograd refuses to say how a tensor came about: a view of which its operator gave
    several, on memory written to since."""
    return needs_gradient(node) and not has_readable_history(fake_of(node))


def has_readable_history(fake: torch.Tensor) -> bool:
    """Whether autograd says how a tensor came about, and whether it is a leaf."""
    try:
        fake.grad_fn  # noqa: B018
    except RuntimeError:
        return False
    return True


def is_view_of_a_function(node: torch.fx.Node) -> bool:
    """Whether a tensor is an input, or a view of one, that a custom autograd.Function returned:
    autograd allows no write to it."""
    return is_marked_view(node, CreationMeta.IN_CUSTOM_FUNCTION)


def is_one_of_several_views(node: torch.fx.Node) -> bool:
    """Whether a node is a view with a gradient history that split(), chunk() or unbind() gave:
    autograd forbids to write into it, and to use it once its base was written."""
    return is_marked_view(node, CreationMeta.MULTI_OUTPUT_NODE)


def is_marked_view(node: torch.fx.Node, mark: CreationMeta) -> bool:
    """Whether a node is a view with a gradient history to which autograd has given this mark."""
    fake = fake_of(node)
    return needs_gradient(node) and fake._is_view() and _get_creation_meta(fake) == mark


class GradientStarts:
    """Where gradients by inputs leave a graph: at a leaf, or at the autograd node that made the
    input; writing into the input has not moved that. placeholders: by position of the input."""

    def __init__(self, placeholders: Mapping[int, torch.fx.Node]) -> None:
        self.leaves = {
            id(fake_of(node)): index
            for index, node in placeholders.items()
            if not node.meta.get("grad_fn")
        }
        self.made: dict[Any, set[int]] = {}  # one node may have made several inputs
        for index, node in placeholders.items():
            if node.meta.get("grad_fn"):
                for made in {node.meta["grad_fn"], node.meta.get("base_grad_fn")} - {None}:
                    self.made.setdefault(made, set()).add(index)

    def inputs_reached_from(self, fake: torch.Tensor) -> frozenset[int]:
        """Positions of the inputs that a backward pass from a tensor reaches."""
        if fake.grad_fn is None:
            return frozenset({self.leaves[id(fake)]} if id(fake) in self.leaves else ())
        found: set[int] = set()
        for node in nodes_behind(fake.grad_fn, ends=self.made):
            if node in self.made:  # its history from before is not of this graph
                found |= self.made[node]
            elif (leaf := id(getattr(node, "variable", None))) in self.leaves:
                found.add(self.leaves[leaf])
        return frozenset(found)
