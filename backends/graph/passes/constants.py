"""Moves the part of a functional ATen graph that depends only on parameters out of the graph, so
that it does not run at every call."""

from __future__ import annotations

from collections.abc import Set

import torch
import torch.fx

from ....records import record
from ..memory import memories


@record
class ConstantPart:
    """`once` takes the inputs at `positions`; its results are the last inputs of the remaining
    graph."""

    once: torch.fx.GraphModule
    positions: tuple[int, ...]


def take_out_constants(
    gm: torch.fx.GraphModule, parameters: Set[torch.fx.Node]
) -> ConstantPart | None:
    """Changes the graph; None where nothing is computed from these placeholders alone. Views of
    them stay in the graph."""
    constant = constant_nodes(gm.graph, parameters)
    shown = {memory for node in parameters for memory in memories(node)}
    results = [
        node
        for node in gm.graph.nodes
        if node in constant
        and isinstance(node.meta.get("val"), torch.Tensor)
        and shown.isdisjoint(memories(node))
        and any(user not in constant for user in node.users)
    ]
    if not results:
        return None
    once = torch.fx.Graph()
    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    positions = []
    for position, node in enumerate(gm.graph.find_nodes(op="placeholder")):
        if node in parameters:
            copies[node] = once.node_copy(node)
            positions.append(position)
    for node in gm.graph.nodes:
        if node in constant and node not in copies:
            copies[node] = once.node_copy(node, copies.__getitem__)
    once.output(tuple(copies[node] for node in results))
    once.eliminate_dead_code()
    replace_by_inputs(gm.graph, results)
    for node in reversed(list(gm.graph.nodes)):
        if node in constant and node.op != "placeholder" and not node.users:
            gm.graph.erase_node(node)
    return ConstantPart(torch.fx.GraphModule(gm, once, class_name="Once"), tuple(positions))


def constant_nodes(graph: torch.fx.Graph, parameters: Set[torch.fx.Node]) -> set[torch.fx.Node]:
    """The parameters, and the calls that depend on them alone."""
    found = set(parameters)
    for node in graph.nodes:
        if (
            node.op == "call_function"
            and node.all_input_nodes
            and found.issuperset(node.all_input_nodes)
            and not node.is_impure()
        ):
            found.add(node)
    return found


def replace_by_inputs(graph: torch.fx.Graph, nodes: list[torch.fx.Node]) -> None:
    """Gives the graph new last inputs, in place of these nodes."""
    last = graph.find_nodes(op="placeholder")[-1]
    for number, node in enumerate(nodes):
        with graph.inserting_after(last):
            last = graph.placeholder(f"constant{number}")
        last.target = last.name  # an input may have this name
        last.meta = dict(node.meta)
        node.replace_all_uses_with(last)
