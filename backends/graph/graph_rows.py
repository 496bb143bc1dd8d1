"""Graphs of copies as plain values: written to disk in a tenth of the time that their Python text
takes. In: a graph of copies. Out: the same graph in another process, once somebody runs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch.fx

from ...records import record
from .copies import INPUT, Copies, Copy, module
from .graph_constant import with_constants

PLACEHOLDER = -1  # in place of an operator's position


@record
class Place:
    """Stands for an input of an operator in its arguments."""

    number: int


@record
class GraphRows:
    """A graph without metadata. constants: its tensors, by name. operators: of each distinct
    operator the op, target, args and kwargs of its nodes, in which a Place stands for an input.
    rows: of each node the position of its operator, and the positions of its inputs. results:
    positions of the nodes that are returned."""

    constants: dict[str, Any]
    operators: tuple[tuple[Any, ...], ...]
    rows: tuple[tuple[int, ...], ...]
    results: tuple[int | None, ...]

    @classmethod
    def of(cls, graph: Copies) -> GraphRows:
        """The rows of a graph, whose nodes are numbered in their order."""
        *nodes, output = graph.nodes
        operators: dict[torch.fx.Node, int] = {}
        positions: dict[Copy, int] = {}
        rows: list[tuple[int, ...]] = []
        for position, node in enumerate(nodes):
            source, inputs = node.source, [positions[other] for other in node.inputs]
            known = source is not INPUT
            operator = operators.setdefault(source, len(operators)) if known else PLACEHOLDER
            rows.append((operator, *inputs))
            positions[node] = position
        names = {str(source.target) for source in operators if source.op == "get_attr"}
        constants = {name: graph.constants[name] for name in names}
        results = tuple(None if node is None else positions[node] for node in output.args[0])
        return cls(constants, tuple(map(operator_of, operators)), tuple(rows), results)

    def __reduce__(self) -> Any:
        constants = with_constants(self.constants)
        return GraphRows, (constants, self.operators, self.rows, self.results)

    def module(self) -> torch.fx.GraphModule:
        """A GraphModule."""
        graph = torch.fx.Graph()
        made: list[torch.fx.Node] = []
        for operator, *inputs in self.rows:
            if operator == PLACEHOLDER:
                made.append(graph.placeholder(f"input_{len(made)}"))
            else:
                given = [made[position] for position in inputs]
                made.append(add_node(graph, self.operators[operator], given))
        graph.output(tuple(None if one is None else made[one] for one in self.results))
        return module(self.constants, graph, "GraphOfRows")


def operator_of(source: torch.fx.Node) -> tuple[Any, ...]:
    places: dict[Any, Any] = {
        node: Place(number) for number, node in enumerate(source.all_input_nodes)
    }
    args, kwargs = torch.fx.node.map_arg((source.args, source.kwargs), places.__getitem__)
    return source.op, source.target, args, kwargs


def add_node(
    graph: torch.fx.Graph, operator: tuple[Any, ...], inputs: Sequence[torch.fx.Node]
) -> torch.fx.Node:
    op, target, args, kwargs = operator
    args, kwargs = torch.fx.node.map_aggregate(
        (args, kwargs), lambda one: inputs[one.number] if isinstance(one, Place) else one
    )
    return graph.create_node(op, target, args, kwargs)
