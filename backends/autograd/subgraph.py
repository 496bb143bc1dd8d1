"""Subgraphs of a captured graph, written as graphs of their own.

In: groups of its nodes, in the order in which they run. Out: a graph module for each, and which
values these pass to each other.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx

from ..graph.data_dependent_sizes import is_number_from_values
from ..graph.fake_values import element_count, fake_of, fake_tensors_of
from ..graph.graph_structure import share_with_equal_subgraphs
from ..graph.memory import memory_at
from ..graph.mutations import may_write
from ..graph.passed_values import PassedValues, note_passed_values
from ..graph.random_draws import may_draw
from .node_modes import MODES_AT_ENDS, CannotSplit, Modes, ModeSwitcher

Node = torch.fx.Node
# A subgraph of at most SMALL operations on tensors of less than LARGE elements is not compiled.
SMALL, LARGE = 3, 1 << 20


@dataclass
class Subgraph:
    """A part of a captured graph. Values are numbered, the graph's inputs first: `input_ids` and
    `output_ids` are the numbers of what `gm` takes and returns."""

    gm: torch.fx.GraphModule
    input_ids: list[int]
    output_ids: list[int]

    def examples(self, inputs: Sequence[Any]) -> list[Any]:
        """Example inputs: real ones for the graph's inputs, fake tensors for the outputs of other
        subgraphs."""
        placeholders = self.gm.graph.find_nodes(op="placeholder")
        return [
            inputs[number] if number < len(inputs) else fake_of(node)
            for number, node in zip(self.input_ids, placeholders, strict=True)
        ]

    @property
    def is_small(self) -> bool:
        """Whether calling its operations one by one costs less than one node for all of them: they
        are few, and take little time."""
        calls = [
            node
            for node in self.gm.graph.nodes
            if node.op.startswith("call_") and node.target is not operator.getitem
        ]
        return len(calls) <= SMALL and not any(map(computes_much, calls))


def computes_much(node: Node) -> bool:
    """Whether an operation reads or writes a large tensor. A view does neither."""
    shared = {memory_at(other) for other in node.all_input_nodes} - {None}
    if memory_at(node) in shared and not may_write(node):
        return False
    tensors = [fake for one in (node, *node.all_input_nodes) for fake in fake_tensors_of(one)]
    return any(element_count(fake) >= LARGE for fake in tensors)


def make_subgraphs(
    gm: torch.fx.GraphModule,
    groups: Sequence[Sequence[Node]],
    results: Sequence[Node],
    modes: dict[Node, Modes],
    views: Collection[Node] = (),
) -> tuple[list[Subgraph], list[int]]:
    """A graph for each group. views: nodes outside of the groups, which each graph computes for
    itself where it needs them."""
    numbers = {node: number for number, node in enumerate(gm.graph.find_nodes(op="placeholder"))}
    shown = {memory_at(node) for node in results} | {None}
    subgraphs = []
    for position, group in enumerate(groups):
        later = {node for other in groups[position + 1 :] for node in other}
        passed = {
            node
            for node in group
            if is_passed_between(node) and not later.isdisjoint(users_of(node, views))
        }
        hidden = {node for node in passed if memory_at(node) not in shown}
        outputs = [node for node in group if node in results or node in passed]
        writer = SubgraphWriter(modes, views)
        for node in group:
            writer.write(node)
        numbers |= {node: number for number, node in enumerate(outputs, len(numbers))}
        subgraph = Subgraph(
            writer.to_graph_module(outputs),
            [numbers[node] for node in writer.inputs],
            [numbers[node] for node in outputs],
        )
        note_passed_values(
            subgraph.gm,
            PassedValues(
                positions_where(node.op != "placeholder" for node in writer.inputs),
                positions_where(node in passed for node in outputs),
                positions_where(node in hidden for node in outputs),
            ),
        )
        share_with_equal_subgraphs(gm, subgraph.gm, position)
        subgraphs.append(subgraph)
    return subgraphs, [numbers[node] for node in results]


def positions_where(answers: Iterable[bool]) -> frozenset[int]:
    return frozenset(position for position, holds in enumerate(answers) if holds)


def is_passed_between(node: Node) -> bool:
    """Whether other subgraphs get a node's value as an input. Tensors are passed, and numbers read
    from them; other numbers are computed again in each subgraph."""
    return isinstance(fake_of(node), torch.Tensor) or is_number_from_values(node)


def users_of(node: Node, views: Collection[Node]) -> set[Node]:
    """The nodes that use a node, or a view of it."""
    found = set(node.users)
    return found.union(*(users_of(user, views) for user in found if user in views))


class SubgraphWriter:
    """Writes one subgraph. `inputs`: the nodes that it takes. `order`: the nodes that it runs;
    numbers from outside are computed again before their first use, and `views` are taken again."""

    def __init__(self, modes: dict[Node, Modes], views: Collection[Node]) -> None:
        self.modes, self.views = modes, views
        self.inputs: list[Node] = []
        self.order: list[Node] = []
        self.available: set[Node] = set()

    def write(self, node: Node) -> None:
        for other in node.all_input_nodes:
            if other not in self.available:
                self.bring_in(other)
        self.available.add(node)
        self.order.append(node)

    def bring_in(self, node: Node) -> None:
        """Makes a value from outside available: as an input, or by computing it again."""
        if node in self.views:
            self.write(node)
        elif node.op == "placeholder" or is_passed_between(node):
            self.available.add(node)
            self.inputs.append(node)
        elif (
            fake_tensors_of(node)
            or may_draw(node)
            or not isinstance(fake_of(node), (int, float, torch.SymInt, torch.SymFloat))
        ):
            raise CannotSplit
        else:
            self.write(node)

    def to_graph_module(self, outputs: Sequence[Node]) -> torch.fx.GraphModule:
        """The subgraph as a captured graph, with switches of torch's modes where they differ."""
        graph = torch.fx.Graph()
        made = {}
        for node in self.inputs:
            made[node] = graph.placeholder(node.name)
            ours = node.op == "placeholder"
            made[node].meta = (
                dict(node.meta)
                if ours
                else {
                    "example_value": fake_of(node),
                    "grad_fn": getattr(fake_of(node), "grad_fn", None),
                }
            )
        switcher = ModeSwitcher(graph)
        for node in self.order:
            switcher.to(self.modes[node])
            made[node] = graph.node_copy(node, made.__getitem__)
        switcher.to(MODES_AT_ENDS)
        graph.output(tuple(made[node] for node in outputs))
        return torch.fx.GraphModule({}, graph, class_name="CapturedGraph")
