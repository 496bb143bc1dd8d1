"""Moves each wait for a collective directly before the first use of the result, so that the
operations between them run while the processes communicate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set

import torch.fx

from ..collectives import is_collective, is_wait
from ..memory import memory_at
from ..mutations import may_write


def delay_waits(graph: torch.fx.Graph) -> None:
    """Changes the order of the nodes; the collectives themselves keep theirs.

    A result in the memory of an input is waited for at once, as another input may show that memory.
    """
    inputs = memories(graph.find_nodes(op="placeholder"))
    for wait in list(filter(is_wait, graph.nodes)):
        collective = awaited_collective(wait)
        results = memories(wait.all_input_nodes)
        if collective is None or wait.users or not results or results & inputs:
            continue
        read = memories(collective.all_input_nodes)
        first_user(wait, results, read).prepend(wait)


def awaited_collective(wait: torch.fx.Node) -> torch.fx.Node | None:
    """The last collective before a wait whose result is in the memory that it waits for."""
    results = memories(wait.all_input_nodes)
    return next(
        (
            node
            for node in walk(wait, lambda node: node.prev)
            if is_collective(node)
            and not is_wait(node)
            and results & memories([node, *node.users, *node.all_input_nodes])
        ),
        None,
    )


def first_user(wait: torch.fx.Node, results: Set[int], read: Set[int]) -> torch.fx.Node:
    """The first node after a wait that uses the results, or writes what the collective reads."""
    return next(
        node
        for node in walk(wait, lambda node: node.next)
        if node.op == "output"
        or results & memories([node, *node.all_input_nodes])
        or (may_write(node) and read & memories(node.all_input_nodes))
    )


def memories(nodes: list[torch.fx.Node]) -> set[int]:
    """The memory of the tensors among the nodes."""
    return {memory for node in nodes if (memory := memory_at(node)) is not None}


def walk(
    node: torch.fx.Node, step: Callable[[torch.fx.Node], torch.fx.Node]
) -> Iterator[torch.fx.Node]:
    """The nodes before or after a node, up to the end of its graph."""
    node = step(node)
    while node.op != "root":
        yield node
        node = step(node)
