"""Writes to tensors with autograd history that autograd does not record: under no_grad, through
`.data` or detach().

torch's operators leave the history unchanged. A compiled graph writes once, at its end, and its
value either has a history or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch
import torch.fx

from ...records import record
from .fake_values import fake_of
from .memory import plain_memory_at
from .mode_switches import GRAD_MODE
from .mutations import is_data, is_norm, may_write, written_nodes
from .node_targets import name_of

# meta of an input whose `.data` the program gets, though the graph does not return it
SHOWN_DATA = "shown_data"


@record
class TensorWrite:
    """A write of a node. recorded: whether autograd records it. through_detached: whether it goes
    through `.data` or detach() of a tensor."""

    node: torch.fx.Node
    written: torch.fx.Node
    memory: int
    recorded: bool
    through_detached: bool


def hides_writes(gm: torch.fx.GraphModule) -> bool:
    """Whether a captured graph has a write that leaves other histories in eager than a compiled
    graph, which writes at its end, can leave."""
    nodes = gm.graph.nodes
    inputs = gm.graph.find_nodes(op="placeholder")
    made = memories_of(node for node in inputs if node.meta.get("grad_fn") is not None)
    with_history = memories_of(filter(has_history, nodes))
    if not made and not with_history:
        return False
    given, data = memories_of(inputs), data_nodes(nodes)
    computed = with_history - given
    for write in tensor_writes(nodes):
        # unrecorded, to an input with a history
        if write.memory in made and (write.through_detached or not write.recorded):
            return True
        # through a detached input, which then has a history that the input has not
        if write.memory in given and write.through_detached and write.recorded:
            return True
        # through `.data`, to a computed value: what eager has saved of it for the backward pass is
        # overwritten, and no version counter shows that
        if (
            write.memory in computed
            and write.written in data
            and name_of(write.node) != "requires_grad_"
        ):
            return True
    return False


def memories_of(nodes: Iterable[torch.fx.Node]) -> set[int]:
    return {memory for node in nodes if (memory := plain_memory_at(node)) is not None}


def tensor_writes(nodes: Iterable[torch.fx.Node]) -> Iterator[TensorWrite]:
    """The writes of a captured graph in their order. Those of norms to running statistics are left
    out."""
    grad, detached = True, set[torch.fx.Node]()
    for node in nodes:
        if shows_detached(node, detached):
            detached.add(node)
        if name_of(node) == GRAD_MODE:
            grad = bool(node.args[0])
        elif node.op.startswith("call_") and not is_norm(node) and may_write(node):
            for written in written_nodes(node):
                memory = plain_memory_at(written)
                if memory is not None:  # the first argument of a call that may write is a size
                    recorded = grad and written.meta["example_value"].requires_grad
                    yield TensorWrite(node, written, memory, recorded, written in detached)


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
