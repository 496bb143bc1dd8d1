"""What autograd knows of the tensors of a captured graph: which require gradients, and which the
graph has given a history.

In: nodes with their fake tensors. Nothing is changed but the meta of inputs.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Any

import torch
import torch.fx
from torch._C._autograd import CreationMeta, _get_creation_meta

from .fake_values import fake_of


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


def may_be_written_before_backward(node: torch.fx.Node) -> bool:
    """Whether programs may write into an input between its forward and its backward pass, if eager
    saves nothing of it: activations and statistics, while parameters wait for an optimizer."""
    fake = fake_of(node)
    return isinstance(fake, torch.Tensor) and not (
        fake.requires_grad and isinstance(fake, torch.nn.Parameter)
    )


def gains_its_first_history(node: torch.fx.Node) -> bool:
    """Whether the graph gives a history to an input that comes with none."""
    return "grad_fn" in node.meta and needs_gradient(node) and not comes_with_gradient(node)


def leaves_reached_from(fake: torch.Tensor) -> list[torch.Tensor]:
    """The leaves that a backward pass from a tensor reaches, each once."""
    if fake.grad_fn is None:
        return [fake] if fake.requires_grad else []
    behind = nodes_behind(fake.grad_fn)
    return [node.variable for node in behind if hasattr(node, "variable")]


def nodes_behind(start: Any, ends: Container[Any] = ()) -> Iterator[Any]:
    """The autograd nodes that a backward pass runs from a node on, each once. ends: those behind
    which it is not followed."""
    seen, todo = {start}, [start]
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
    if not needs_gradient(node):
        return False
    try:
        fake_of(node).grad_fn  # noqa: B018
    except RuntimeError:
        return True
    return False


def is_view_of_a_function(node: torch.fx.Node) -> bool:
    """Whether a tensor is an input, or a view of one, that a custom autograd.Function returned:
    autograd lets nobody write to it."""
    fake = fake_of(node)
    view = needs_gradient(node) and fake._is_view()
    return view and _get_creation_meta(fake) == CreationMeta.IN_CUSTOM_FUNCTION


def is_one_of_several_views(node: torch.fx.Node) -> bool:
    """Whether a node is a view with a gradient history that split(), chunk() or unbind() gave:
    autograd forbids to write into it, and to use it once its base was written."""
    fake = fake_of(node)
    view = needs_gradient(node) and fake._is_view()
    return view and _get_creation_meta(fake) == CreationMeta.MULTI_OUTPUT_NODE


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
