"""Splits a captured graph where its results may be differentiated one by one.

In eager a backward pass from one result goes through what leads to that one only, frees that, and
passes through other results on its way, where hooks see the gradient and autograd.grad can end. A
compiled graph is one node: all results lead to all of it. So a graph is cut such that a backward
pass from any choice of its results goes through the whole of a piece or past all of it; a result
that others are made of is where one piece ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import torch
import torch.fx
import torch.utils._pytree as pytree
from torch.amp import autocast_mode

from ..graph.mutations import is_norm, may_write
from ..graph.node_targets import is_foreign, is_users, name_of
from ..graph.passes.memory import memory_of
from ..graph.runtime_errors import (
    ENTER_AUTOCAST,
    EXIT_AUTOCAST,
    GRAD_MODE,
    may_draw,
    switches_modes,
)

Node = torch.fx.Node
Kind = frozenset[
    Node
]  # the results whose backward pass goes through a node; none for one without gradients
MOST = 128  # pieces
FEW = 3  # operations that a piece is not worth compiling for
AUTOGRAD = (
    "grad",
    "backward",
    "retain_grad",
)  # what differentiates, or marks, between the nodes around it


class CannotSplit(Exception):
    """Nobody can say how this graph may be cut."""


@dataclass
class Subgraph:
    """gm: its graph. takes, gives: numbers of values, a graph's inputs being the first ones."""

    gm: torch.fx.GraphModule
    takes: list[int]
    gives: list[int]

    def examples(self, inputs: Sequence[Any]) -> list[Any]:
        """Of what it takes: the graph's inputs, and fake tensors for what other pieces give."""
        placeholders = self.gm.graph.find_nodes(op="placeholder")
        return [
            inputs[number] if number < len(inputs) else example(node)
            for number, node in zip(self.takes, placeholders, strict=True)
        ]

    @property
    def is_small(self) -> bool:
        return sum(node.op.startswith("call_") for node in self.gm.graph.nodes) <= FEW


class SubgraphSequence:
    """Calls pieces, one behind the other, as one function of the graph's inputs."""

    def __init__(
        self,
        pieces: Sequence[Subgraph],
        calls: Sequence[Callable[..., Any]],
        results: Sequence[int],
    ) -> None:
        self.steps = [
            (call, piece.takes, piece.gives) for call, piece in zip(calls, pieces, strict=True)
        ]
        self.results = results

    def __call__(self, *args: Any) -> Any:
        values = dict(enumerate(args))
        for call, takes, gives in self.steps:
            values.update(zip(gives, call(*[values[number] for number in takes]), strict=True))
        return tuple(values[number] for number in self.results)


def split_graph(gm: torch.fx.GraphModule) -> tuple[list[Subgraph], list[int]] | None:
    """A graph's pieces in the order to be called, and the numbers of its results; None where it is
    one piece. Raises Whole."""
    results: Any = gm.graph.output_node().args[0]
    ends = {
        result
        for result in results
        if isinstance(result, Node) and has_gradient(result) and result.op != "placeholder"
    }
    if len(ends) < 2:
        return None
    nodes, modes = by_modes(
        node for node in gm.graph.nodes if node.op not in ("placeholder", "output")
    )
    calls = all(node.op in ("call_function", "call_method") for node in nodes)
    if (
        not all(isinstance(result, Node) for result in results)
        or not calls
        or any(name_of(node) in AUTOGRAD[1:] for node in nodes)
    ):
        raise CannotSplit
    touched = memories_by_node(nodes)
    before = earlier(nodes, touched)
    together = tied_nodes(nodes, touched, before)
    groups = group_nodes(nodes, leading(nodes, ends, together), before)
    if len(groups) == 1:
        return None
    if len(groups) > MOST or splits(groups, together):
        raise CannotSplit
    return make_subgraphs(gm, groups, results, modes)


# modes


@dataclass(frozen=True)
class Modes:
    """What is switched on where a node runs. autocasts: the nodes that entered those that are open,
    the outermost first."""

    grad: bool = True
    autocasts: tuple[Node, ...] = ()


AT_ENDS = Modes()  # a graph that takes gradients begins and ends with it


def by_modes(nodes: Iterable[Node]) -> tuple[list[Node], dict[Node, Modes]]:
    """Nodes without those that switch modes, and the modes of each."""
    kept, modes, now = [], {}, AT_ENDS
    for node in nodes:
        name = name_of(node)
        if name == GRAD_MODE:
            now = Modes(bool(node.args[0]), now.autocasts)
        elif name == ENTER_AUTOCAST:
            now = Modes(now.grad, (*now.autocasts, node))
        elif name == EXIT_AUTOCAST and now.autocasts[-1:] == node.args:
            now = Modes(now.grad, now.autocasts[:-1])
        elif name == EXIT_AUTOCAST or switches_modes(node):
            raise CannotSplit
        else:
            modes[node] = now
            kept.append(node)
    if now != AT_ENDS:
        raise CannotSplit
    return kept, modes


class Switches:
    """Writes into a graph what switches from one node's modes to the next one's."""

    def __init__(self, graph: torch.fx.Graph) -> None:
        self.graph, self.now, self.entered = graph, AT_ENDS, list[Node]()

    def to(self, wanted: Modes) -> None:
        if self.now == wanted:
            return
        pairs = zip(self.now.autocasts, wanted.autocasts, strict=False)
        stay = sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1], pairs))
        while len(self.entered) > stay:
            self.graph.call_function(autocast_mode._exit_autocast, (self.entered.pop(),))
        self.entered += [self.graph.node_copy(node) for node in wanted.autocasts[stay:]]
        if self.now.grad != wanted.grad:
            self.graph.call_function(torch._C._set_grad_enabled, (wanted.grad,))
        self.now = wanted


def example(node: Node) -> Any:
    return node.meta.get("example_value")


def tensors_of(node: Node) -> list[torch.Tensor]:
    value = example(node)
    return [
        item
        for item in (value if isinstance(value, (tuple, list)) else (value,))
        if isinstance(item, torch.Tensor)
    ]


def has_gradient(node: Node) -> bool:
    return any(tensor.requires_grad for tensor in tensors_of(node))


# memory


def memories_by_node(nodes: Iterable[Node]) -> dict[Node, set[int]]:
    """Of each node, the memory that it reads, writes or makes."""
    return {node: memories_of(node, *node.all_input_nodes) for node in nodes}


def memories_of(*nodes: Node) -> set[int]:
    return {
        memory_of(tensor)
        for node in nodes
        for tensor in tensors_of(node)
        if tensor.layout == torch.strided
    }


def written_memories(nodes: Iterable[Node]) -> set[int]:
    """What is written to, statistics left out; all that a writer is given, as names do not say
    which."""
    writers = [node for node in nodes if may_write(node) and not is_norm(node)]
    return memories_of(*(other for node in writers for other in node.all_input_nodes))


def tied_nodes(
    nodes: Sequence[Node], touched: dict[Node, set[int]], before: dict[Node, set[Node]]
) -> list[list[Node]]:
    """Nodes that have to lie in one piece: on memory that is written to, a tuple with its items,
    what is differentiated inside."""
    groups = [
        [node for node in nodes if memory in touched[node]]
        for memory in sorted(written_memories(nodes))
    ]
    tuples = (node for node in nodes if isinstance(example(node), (tuple, list)))
    groups += [[node, *(user for user in node.users if user.op != "output")] for node in tuples]
    return groups + [
        autograd_grad_region(node, nodes, before) for node in nodes if name_of(node) in AUTOGRAD
    ]


def autograd_grad_region(
    grad: Node, nodes: Sequence[Node], before: dict[Node, set[Node]]
) -> list[Node]:
    """A call of torch.autograd.grad, and what lies between what it differentiates and what it
    differentiates by."""
    of, by = ([*pytree.arg_tree_leaves(argument)] for argument in argument_pair(grad))
    later, earlier = set(by), set(of)
    for node in nodes:
        if not later.isdisjoint((*before[node], *node.all_input_nodes)):
            later.add(node)
    for node in reversed(nodes):
        if node in earlier:
            earlier |= before[node]
    return [grad, *(node for node in nodes if node in later and node in earlier)]


def argument_pair(grad: Node) -> tuple[Any, Any]:
    of = grad.args[0] if grad.args else grad.kwargs["outputs"]
    return of, grad.args[1] if len(grad.args) > 1 else grad.kwargs["inputs"]


def splits(groups: Sequence[Sequence[Node]], together: Sequence[Sequence[Node]]) -> bool:
    """Whether what has to lie in one piece lies in two."""
    places = {node: place for place, group in enumerate(groups) for node in group}
    return any(len({places[node] for node in tied}) > 1 for tied in together)


def earlier(nodes: Sequence[Node], touched: dict[Node, set[int]]) -> dict[Node, set[Node]]:
    """Of each node, those that have to run before: that make what it takes, or are on memory that
    one of the two writes to; what draws random numbers, or nothing is known of, keeps its order."""
    before = {node: set(node.all_input_nodes) for node in nodes}
    last_writer: dict[int, Node] = {}
    since: dict[int, list[Node]] = {}
    last_ordered: Node | None = None
    for node in nodes:
        writes = may_write(node)
        for memory in touched[node]:
            if memory in last_writer:
                before[node].add(last_writer[memory])
            if writes:
                before[node].update(since.pop(memory, ()))
                last_writer[memory] = node
            else:
                since.setdefault(memory, []).append(node)
        if may_draw(node) or is_users(node) or is_foreign(node):
            if last_ordered is not None:
                before[node].add(last_ordered)
            last_ordered = node
        before[node].discard(node)
    return before


# gradients


def leading(
    nodes: Sequence[Node], ends: set[Node], tied: Sequence[Sequence[Node]]
) -> dict[Node, Kind]:
    of: dict[Node, Kind] = {node: frozenset({node} & ends) for node in nodes}
    before: Any = None
    while before != of:
        before = dict(of)
        for node in reversed(nodes):
            if has_gradient(node):
                of[node] = of[node].union(*(of[user] for user in node.users if user in of))
        for group in tied:
            everything = Kind().union(*(of[node] for node in group))
            of.update((node, everything) for node in group)
    return of


def group_nodes(
    nodes: Sequence[Node], leads: dict[Node, Kind], before: dict[Node, set[Node]]
) -> list[list[Node]]:
    """Nodes that lead to the same results together, in an order in which they can run. What leads
    to most comes first; what leads to none goes along as soon as it can."""
    places = {node: place for place, node in enumerate(nodes)}
    kinds = sorted(
        {of for of in leads.values() if of},
        key=lambda of: (-len(of), sorted(places[node] for node in of)),
    )
    left, groups = list(nodes), list[list[Node]]()
    while kinds:
        group = next_group(left, kinds, leads, before)
        groups.append(group)
        taken = set(group)
        left = [node for node in left if node not in taken]
        remaining = {leads[node] for node in left}
        kinds = [kind for kind in kinds if kind in remaining]
    groups[-1] += left
    return groups


def next_group(
    left: Sequence[Node],
    kinds: Sequence[Kind],
    leads: dict[Node, Kind],
    before: dict[Node, set[Node]],
) -> list[Node]:
    """All nodes left of a kind if that is possible for one, else some of the first kind that can
    begin."""
    some: list[Node] = []
    for kind in kinds:
        group = can_run(left, kind, leads, before)
        count = sum(leads[node] == kind for node in group)
        if count == sum(leads[node] == kind for node in left):
            return group
        some = some or (group if count else [])
    return some


def can_run(
    left: Sequence[Node], kind: Kind, leads: dict[Node, Kind], before: dict[Node, set[Node]]
) -> list[Node]:
    """Those of the nodes left that can run without any of another kind."""
    found, waiting = [], set(left)
    for node in left:
        if (leads[node] == kind or not leads[node]) and waiting.isdisjoint(before[node]):
            found.append(node)
            waiting.remove(node)
    return found


# pieces


def make_subgraphs(
    gm: torch.fx.GraphModule,
    groups: Sequence[Sequence[Node]],
    results: Sequence[Node],
    modes: dict[Node, Modes],
) -> tuple[list[Subgraph], list[int]]:
    """A graph for each group."""
    numbers = {node: number for number, node in enumerate(gm.graph.find_nodes(op="placeholder"))}
    shared = gm.meta.get("shared")
    pieces = []
    for position, group in enumerate(groups):
        later = {node for other in groups[position + 1 :] for node in other}
        gives = [
            node
            for node in group
            if node in results or (is_given(node) and not later.isdisjoint(node.users))
        ]
        writer = SubgraphWriter(modes)
        for node in group:
            writer.write(node)
        numbers |= {node: number for number, node in enumerate(gives, len(numbers))}
        piece = Subgraph(
            writer.to_graph_module(gives),
            [numbers[node] for node in writer.takes],
            [numbers[node] for node in gives],
        )
        if shared is not None:
            piece.gm.meta["shared"] = shared.setdefault(("piece", position), {})
        pieces.append(piece)
    return pieces, [numbers[node] for node in results]


def is_given(node: Node) -> bool:
    """Whether other pieces are given a node's value: tensors are, numbers are found again."""
    return isinstance(example(node), torch.Tensor)


class SubgraphWriter:
    """Writes one piece. `takes`: what it is given. `order`: what it does, numbers that come from
    outside found first."""

    def __init__(self, modes: dict[Node, Modes]) -> None:
        self.modes = modes
        self.takes: list[Node] = []
        self.order: list[Node] = []
        self.known: set[Node] = set()

    def write(self, node: Node) -> None:
        for other in node.all_input_nodes:
            if other not in self.known:
                self.find(other)
        self.known.add(node)
        self.order.append(node)

    def find(self, node: Node) -> None:
        """Has a value that comes from outside."""
        if node.op == "placeholder" or is_given(node):
            self.known.add(node)
            self.takes.append(node)
        elif (
            tensors_of(node)
            or may_draw(node)
            or not isinstance(example(node), (int, float, torch.SymInt, torch.SymFloat))
        ):
            raise CannotSplit
        else:
            self.write(node)

    def to_graph_module(self, gives: Sequence[Node]) -> torch.fx.GraphModule:
        graph = torch.fx.Graph()
        made = {}
        for node in self.takes:
            made[node] = graph.placeholder(node.name)
            ours = node.op == "placeholder"
            made[node].meta = (
                dict(node.meta)
                if ours
                else {"example_value": example(node), "grad_fn": example(node).grad_fn}
            )
        switches = Switches(graph)
        for node in self.order:
            switches.to(self.modes[node])
            made[node] = graph.node_copy(node, made.__getitem__)
        switches.to(AT_ENDS)
        graph.output(tuple(made[node] for node in gives))
        return torch.fx.GraphModule({}, graph, class_name="CapturedGraph")
