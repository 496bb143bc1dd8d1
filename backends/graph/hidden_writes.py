"""Writes to tensors with autograd history that autograd does not record: under no_grad, through
`.data` or detach().

torch's operators leave the history unchanged. A compiled graph writes once, at its end, and its
value either has a history or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
import torch.fx

from .fake_values import fake_of
from .memory import plain_memory_at
from .mode_switches import GRAD_MODE
from .mutations import is_data, is_norm, may_write, written_nodes
from .node_targets import name_of

# meta of an input whose `.data` the program gets, though the graph does not return it
SHOWN_DATA = "shown_data"


def hides_writes(gm: torch.fx.GraphModule) -> bool:
    """Whether a captured graph writes in this way to the memory of an input with a history, or
    through `.data` to the memory of a computed value with a history. What eager has saved of that
    value for the backward pass is overwritten too, and no version counter shows it. Or whether it
    writes a value with a history through a detached input, which then has it and the input has
    not."""
    inputs = gm.graph.find_nodes(op="placeholder")
    made = {plain_memory_at(node) for node in inputs if node.meta.get("grad_fn") is not None} - {
        None
    }
    given = {plain_memory_at(node) for node in inputs} - {None}
    with_history = {plain_memory_at(node) for node in gm.graph.nodes if has_history(node)} - {None}
    computed = with_history - given
    if not made and not with_history:
        return False
    grad, detached, data = True, set[torch.fx.Node](), data_nodes(gm.graph.nodes)
    for node in gm.graph.nodes:
        if shows_detached(node, detached):
            detached.add(node)
        if name_of(node) == GRAD_MODE:
            grad = bool(node.args[0])
        elif node.op.startswith("call_") and not is_norm(node) and may_write(node):
            for written in written_nodes(node):
                memory = plain_memory_at(written)
                if memory is None:  # the first argument of a call that may write is a size
                    continue
                recorded = grad and written.meta["example_value"].requires_grad
                if memory in made and (written in detached or not recorded):
                    return True
                if memory in given and written in detached and recorded:
                    return True
                if memory in computed and written in data and name_of(node) != "requires_grad_":
                    return True
    return False


def has_history(node: torch.fx.Node) -> bool:
    """Whether a node computes a tensor with a history."""
    fake = fake_of(node)
    return node.op.startswith("call_") and isinstance(fake, torch.Tensor) and fake.requires_grad


def writes_detached(nodes: Sequence[torch.fx.Node]) -> bool:
    """Whether a graph writes through `.data` or detach(). (`.data` has its own version counter, so
    the inputs' counters do not show it.)"""
    detached = set[torch.fx.Node]()
    for node in nodes:
        if shows_detached(node, detached):
            detached.add(node)
        if node.op.startswith("call_") and may_write(node):
            if not detached.isdisjoint(written_nodes(node)):
                return True
    return False


def shows_detached(node: torch.fx.Node, detached: set[torch.fx.Node]) -> bool:
    """Whether a node is `.data` or detach() of a tensor, or a view of such a node. Writing to it
    gives it a history that the original tensor does not share."""
    return is_data(node) or name_of(node) == "detach" or is_view_of_any(node, detached)


def data_nodes(nodes: Iterable[torch.fx.Node]) -> set[torch.fx.Node]:
    """The nodes that are `.data` of a tensor, or a view of such a node."""
    found = set[torch.fx.Node]()
    for node in nodes:
        if is_data(node) or is_view_of_any(node, found):
            found.add(node)
    return found


def is_view_of_any(node: torch.fx.Node, sources: set[torch.fx.Node]) -> bool:
    """Whether a node's tensor shares the memory of its first input, which is one of `sources`."""
    return any(
        source in sources and plain_memory_at(node) == plain_memory_at(source)
        for source in node.all_input_nodes[:1]
    )
