"""Nodes whose results nothing reads. Tracers drop them, with the errors that they raise and the
random numbers that they draw."""

from __future__ import annotations

import torch
import torch.fx

from .fake_values import fake_of
from .memory import memory_at
from .mutations import may_write, written_nodes
from .node_targets import name_of

OVERWRITES = ("zero_", "fill_", "copy_")
# Operators that read no element of their first argument, only its sizes, dtype and device.
READ_METADATA = frozenset((
    "empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "randint_like",
    "new_empty", "new_empty_strided", "new_zeros", "new_ones", "new_full", "size", "sym_size",
))  # fmt: skip


def unread_nodes(graph: torch.fx.Graph) -> list[torch.fx.Node]:
    """Calls on which nothing that the graph returns or leaves in its inputs depends."""
    unread = []
    needed = set(graph.output_node().all_input_nodes)
    read = {memory_at(node) for node in (*needed, *graph.find_nodes(op="placeholder"))} - {None}
    for node in reversed(graph.nodes):
        if not node.op.startswith("call_"):
            continue
        writes = may_write(node) and any(memory_at(other) in read for other in written_nodes(node))
        if node in needed or writes:
            inputs = node.all_input_nodes
            if node not in needed and name_of(node).startswith("_foreach_"):
                apart = {other for other in written_nodes(node) if memory_at(other) not in read}
                # nothing reads what is written there
                inputs = [other for other in inputs if other not in apart]
            if name_of(node) in READ_METADATA:
                inputs = [other for other in inputs if other not in node.args[:1]]
            if overwrites(node):
                target, *inputs = inputs
                needed.discard(target)
                read.discard(memory_at(target))
            needed.update(inputs)
            read.update(memory for other in inputs if (memory := memory_at(other)) is not None)
        else:
            unread.append(node)
    return unread


def overwrites(node: torch.fx.Node) -> bool:
    """Whether a node overwrites all of its first argument's memory and reads none of it."""
    if name_of(node) not in OVERWRITES or node.args[0] in node.args[1:]:
        return False
    example = fake_of(node.all_input_nodes[0])
    if not isinstance(example, torch.Tensor) or example.layout is not torch.strided:
        return False
    there = example.untyped_storage().nbytes()
    known = all(type(size) is int for size in (*example.shape, there))
    return known and example.numel() * example.element_size() == there
