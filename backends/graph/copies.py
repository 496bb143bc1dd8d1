"""Builds graphs from copies of nodes. A Copy refers to its original node and to the copies that it
uses. It is cheaper than an fx node, which matters for graphs with many repeated blocks. The copies
become a torch.fx.Graph at the end."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch.fx
from torch.fx._lazy_graph_module import _LazyGraphModule, _make_graph_module, _use_lazy_graph_module

NUMBERED = re.compile(r"(.*)_(\d+)$")
INPUT = torch.fx.Graph().placeholder("input")  # the original of all placeholders


def template(function: Callable[..., Any], *inputs: str) -> torch.fx.Node:
    """A call, as an original for copies."""
    graph = torch.fx.Graph()
    return graph.call_function(function, tuple(map(graph.placeholder, inputs)))


class Copy:
    """The part of torch.fx.Node's interface that is used here. `inputs`: in the order of the
    original's inputs."""

    __slots__ = ("source", "inputs", "meta", "name", "users", "op", "target")

    def __init__(
        self, source: torch.fx.Node, inputs: Sequence[Copy], meta: dict[str, Any], name: str = ""
    ) -> None:
        self.source, self.inputs, self.meta, self.name = source, inputs, meta, name
        self.op, self.target = source.op, source.target
        self.users: dict[Copy, None] = {}
        for node in inputs:
            node.users[self] = None

    @property
    def all_input_nodes(self) -> Sequence[Copy]:
        return list(dict.fromkeys(self.inputs))

    @property
    def args(self) -> Any:
        return self.map_arguments(self.source.args)

    @property
    def kwargs(self) -> Any:
        return self.map_arguments(self.source.kwargs)

    def map_arguments(self, tree: Any) -> Any:
        copy_of: Callable[[torch.fx.Node], Any] = self.copies_by_input().__getitem__
        return torch.fx.node.map_arg(tree, copy_of)

    def copies_by_input(self) -> dict[torch.fx.Node, Copy]:
        """The copy of each input of the original."""
        return dict(zip(self.source.all_input_nodes, self.inputs, strict=True))


AnyNode = torch.fx.Node | Copy


class Output:
    """The last node: what a graph returns, nested as it is returned."""

    op, target, name = "output", "output", "output"

    def __init__(self, results: Any, nodes: Sequence[Copy]) -> None:
        self.args, self.all_input_nodes = (results,), list(dict.fromkeys(nodes))


class Copies:
    """A graph of copies, to be lowered or converted to a GraphModule. constants: its tensors, by
    name."""

    def __init__(self, constants: Mapping[str, Any], name: str) -> None:
        self.constants, self.name = constants, name
        self.nodes: list[Any] = []
        self._taken: dict[str, int] = {}

    @property
    def graph(self) -> Copies:
        """Itself, as the `graph` of a GraphModule is read."""
        return self

    def add(
        self, source: torch.fx.Node, inputs: Sequence[Copy], meta: dict[str, Any], name: str = ""
    ) -> Copy:
        made = Copy(source, inputs, meta, self.unused_name(name or source.name))
        self.nodes.append(made)
        return made

    def placeholder(self, name: str, meta: dict[str, Any]) -> Copy:
        return self.add(INPUT, (), meta, name)

    def copy_of(self, node: Copy, copies: Mapping[Copy, Copy]) -> Copy:
        """A copy of another graph's copy."""
        return self.add(node.source, [copies[other] for other in node.inputs], dict(node.meta))

    def unused_name(self, name: str) -> str:
        """The name, with a number appended if it is taken."""
        while name in self._taken:
            found = NUMBERED.match(name)
            stem = found[1] if found else name
            number = self._taken.get(stem + "_", 0) + 1
            self._taken[stem + "_"] = number
            name = f"{stem}_{number}"
        self._taken[name] = 0
        return name

    def output(self, results: Sequence[Copy | None]) -> None:
        self.nodes.append(Output(tuple(results), [node for node in results if node is not None]))

    def output_node(self) -> Output:
        ending: Output = self.nodes[-1]
        return ending

    def find_nodes(self, *, op: str) -> list[Any]:
        return [node for node in self.nodes if node.op == op]

    def module(self) -> torch.fx.GraphModule:
        """A GraphModule, its nodes the caller's to change."""
        graph = torch.fx.Graph()
        made = write_copies(graph, self.nodes[:-1])
        (results,) = self.output_node().args
        graph.output(tuple(None if node is None else made[node] for node in results))
        return module(self.constants, graph, self.name)


def write_copies(graph: torch.fx.Graph, nodes: Iterable[Copy]) -> dict[Copy, torch.fx.Node]:
    """Adds nodes to a graph. Returns them by copy."""
    made: dict[Copy, torch.fx.Node] = {}
    for node in nodes:
        if node.source is INPUT:
            made[node] = graph.placeholder(node.name)
        else:
            own = {source: made[other] for source, other in node.copies_by_input().items()}
            made[node] = graph.node_copy(node.source, own.__getitem__)
        made[node].meta = dict(node.meta)
    return made


def module(constants: Any, graph: torch.fx.Graph, name: str) -> torch.fx.GraphModule:
    """A GraphModule that needs no code until somebody runs it. constants: a dictionary, or a module
    that has them."""
    with _use_lazy_graph_module(True):
        return _make_graph_module(constants, graph, class_name=name)


def with_code(gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The module with its code generated."""
    if isinstance(gm, _LazyGraphModule):
        _LazyGraphModule.force_recompile(gm)
    return gm
