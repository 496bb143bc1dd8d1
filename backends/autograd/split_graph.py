"""Splits a captured graph so that its results can be differentiated one by one.

In eager, a backward pass from one result runs only the nodes that this result depends on, and frees
only those. On its way it passes through other results, where hooks see the gradient and
autograd.grad can end. A compiled graph is a single autograd node, so every result depends on all of
it. The graph is therefore split such that a backward pass from any choice of results runs each
subgraph either completely or not at all. A subgraph ends at a result that other results are
computed from.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import torch
import torch.fx
import torch.utils._pytree as pytree
from torch.amp import autocast_mode

from ...records import record
from ..graph.data_dependent_sizes import is_number_from_values
from ..graph.fake_values import element_count, fake_of, fake_tensors_of
from ..graph.graph_structure import share_with_equal_subgraphs
from ..graph.memory import memory_at, memory_of
from ..graph.mode_switches import (
    ENTER_AUTOCAST,
    ENTER_VMAP,
    EXIT_AUTOCAST,
    GRAD_MODE,
    switches_modes,
)
from ..graph.mutations import is_norm, may_write, written_by
from ..graph.node_targets import is_foreign, is_users, name_of
from ..graph.passed_values import PassedValues, note_passed_values
from ..graph.random_draws import may_draw
from .joined_groups import join_groups

Node = torch.fx.Node
# The results whose backward pass goes through a node; empty for a node without a gradient.
ResultSet = frozenset[Node]
MAX_SUBGRAPHS = 1024
# A subgraph of at most SMALL operations on tensors of less than LARGE elements is not compiled.
SMALL, LARGE = 3, 1 << 20
# Calls of autograd inside the graph; they depend on the nodes around them.
AUTOGRAD = ("grad", "backward", "retain_grad")


class CannotSplit(Exception):
    """The graph cannot be split without changing what autograd does; it runs as captured."""


class TooManySubgraphs(CannotSplit):
    """The graph could be split, into more subgraphs than are worth their compile."""


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


def split_graph(gm: torch.fx.GraphModule) -> tuple[list[Subgraph], list[int]] | None:
    """The subgraphs in the order of their calls, and the numbers of the results; None for a graph
    that need not be split. Raises CannotSplit."""
    results: Any = gm.graph.output_node().args[0]
    ends = {
        result
        for result in results
        if isinstance(result, Node) and has_gradient(result) and result.op != "placeholder"
    }
    if len(ends) < 2:
        return None
    nodes, modes = separate_modes(
        node for node in gm.graph.nodes if node.op not in ("placeholder", "output")
    )
    calls = all(node.op in ("call_function", "call_method") for node in nodes)
    if (
        not all(isinstance(result, Node) for result in results)
        or not calls
        or any(name_of(node) in AUTOGRAD[1:] for node in nodes)
    ):
        raise CannotSplit
    memories = {node: memories_of(node, *node.all_input_nodes) for node in nodes}
    before = predecessors(nodes, memories)
    together = inseparable_groups(nodes, memories, before)
    results_of = results_by_node(nodes, ends, together)
    groups = join_groups(group_nodes(nodes, results_of, before), results_of, before)
    fixed = {node for group in together for node in group}.union(results)
    # Each subgraph takes such views for itself. Passed from one to another, they would share memory
    # with other results or inputs, and joint_graph.py leaves such graphs to aot_autograd.
    views = {node for node in nodes if node not in fixed and is_view_without_gradient(node)}
    groups = [others for group in groups if (others := [n for n in group if n not in views])]
    if len(groups) == 1:
        return None
    if len(groups) > MAX_SUBGRAPHS:
        raise TooManySubgraphs
    if is_separated(groups, together):
        raise CannotSplit
    return make_subgraphs(gm, groups, results, modes, views)


# modes


@record
class Modes:
    """The grad and autocast modes in which a node runs. autocasts: the nodes that entered the open
    autocast contexts, outermost first."""

    grad: bool = True
    autocasts: tuple[Node, ...] = ()


MODES_AT_ENDS = Modes()  # a graph with gradients begins and ends in these modes


def separate_modes(
    nodes: Iterable[Node], keeps_vmap: bool = False
) -> tuple[list[Node], dict[Node, Modes]]:
    """The nodes except those that switch modes, and the modes of each. keeps_vmap: the nodes of
    torch.func.vmap are not split from each other. Raises CannotSplit where modes are not nested."""
    others, modes, now = [], {}, MODES_AT_ENDS
    for node in nodes:
        name = name_of(node)
        if name == GRAD_MODE:
            now = Modes(bool(node.args[0]), now.autocasts)
        elif name == ENTER_AUTOCAST:
            now = Modes(now.grad, (*now.autocasts, node))
        elif name == EXIT_AUTOCAST and now.autocasts[-1:] == node.args:
            now = Modes(now.grad, now.autocasts[:-1])
        elif name == EXIT_AUTOCAST or (
            switches_modes(node) and not (keeps_vmap and name == ENTER_VMAP)
        ):
            raise CannotSplit
        else:
            modes[node] = now
            others.append(node)
    if now != MODES_AT_ENDS:
        raise CannotSplit
    return others, modes


class ModeSwitcher:
    """Adds to a graph the nodes that switch from one node's modes to the next one's."""

    def __init__(self, graph: torch.fx.Graph) -> None:
        self.graph, self.now, self.entered = graph, MODES_AT_ENDS, list[Node]()

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


def has_gradient(node: Node) -> bool:
    return any(tensor.requires_grad for tensor in fake_tensors_of(node))


# memory


def memories_of(*nodes: Node) -> set[int]:
    return {
        memory_of(tensor)
        for node in nodes
        for tensor in fake_tensors_of(node)
        if tensor.layout == torch.strided
    }


def written_memories(nodes: Iterable[Node]) -> set[int]:
    """The memory that nodes write, without the running statistics of norms."""
    writers = [node for node in nodes if may_write(node) and not is_norm(node)]
    return memories_of(*(other for node in writers for other in targets_of(node)))


def targets_of(writer: Node) -> list[Node]:
    """What a node may write: all of its arguments, where its schema does not say which."""
    if "out" in writer.kwargs:
        return writer.all_input_nodes
    said = [leaf for leaf in written_by(writer) if isinstance(leaf, Node)]
    return said or writer.all_input_nodes


def inseparable_groups(
    nodes: Sequence[Node], memories: dict[Node, set[int]], before: dict[Node, set[Node]]
) -> list[list[Node]]:
    """Nodes that must be in one subgraph: those on memory that is written, a tuple and its items,
    and what torch.autograd.grad differentiates inside the graph."""
    groups = [
        [node for node in nodes if memory in memories[node]]
        for memory in sorted(written_memories(nodes))
    ]
    groups += [
        [node, *(user for user in node.users if user.op != "output")]
        for node in nodes
        if returns_several(node)
    ]
    return groups + [
        autograd_grad_region(node, nodes, before) for node in nodes if name_of(node) in AUTOGRAD
    ]


def returns_several(node: Node) -> bool:
    """Whether a node's value is a tuple or a list. Captured graphs describe only its items."""
    fake = fake_of(node)
    if fake is None:
        return any(user.target is operator.getitem for user in node.users)
    return isinstance(fake, (tuple, list))


def autograd_grad_region(
    grad: Node, nodes: Sequence[Node], before: dict[Node, set[Node]]
) -> list[Node]:
    """A call of torch.autograd.grad, and the nodes between its inputs and its outputs."""
    of, by = ([*pytree.arg_tree_leaves(argument)] for argument in argument_pair(grad))
    later, before_it = set(by), set(of)
    for node in nodes:
        if not later.isdisjoint((*before[node], *node.all_input_nodes)):
            later.add(node)
    for node in reversed(nodes):
        if node in before_it:
            before_it |= before[node]
    return [grad, *(node for node in nodes if node in later and node in before_it)]


def argument_pair(grad: Node) -> tuple[Any, Any]:
    of = grad.args[0] if grad.args else grad.kwargs["outputs"]
    return of, grad.args[1] if len(grad.args) > 1 else grad.kwargs["inputs"]


def is_separated(groups: Sequence[Sequence[Node]], together: Sequence[Sequence[Node]]) -> bool:
    """Whether nodes that must be in one subgraph are in two."""
    places = {node: place for place, group in enumerate(groups) for node in group}
    return any(len({places[node] for node in group}) > 1 for group in together)


def predecessors(nodes: Sequence[Node], memories: dict[Node, set[int]]) -> dict[Node, set[Node]]:
    """The nodes that must run before each node: its inputs, and nodes on the same memory where one
    of the two writes. Operators that draw random numbers, and unknown functions, keep their
    order."""
    before = {node: set(node.all_input_nodes) for node in nodes}
    last_writer: dict[int, Node] = {}
    since: dict[int, list[Node]] = {}
    last_ordered: Node | None = None
    for node in nodes:
        writes = may_write(node)
        for memory in memories[node]:
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


def results_by_node(
    nodes: Sequence[Node], ends: set[Node], inseparable: Sequence[Sequence[Node]]
) -> dict[Node, ResultSet]:
    """The results whose backward pass runs each node."""
    of: dict[Node, ResultSet] = {node: frozenset({node} & ends) for node in nodes}
    before: Any = None
    while before != of:
        before = dict(of)
        for node in reversed(nodes):
            if has_gradient(node):
                of[node] = of[node].union(*(of[user] for user in node.users if user in of))
        for group in inseparable:
            everything = ResultSet().union(*(of[node] for node in group))
            of.update((node, everything) for node in group)
    return of


def group_nodes(
    nodes: Sequence[Node], results_of: dict[Node, ResultSet], before: dict[Node, set[Node]]
) -> list[list[Node]]:
    """Groups of nodes with the same results, in an order in which they can run. Nodes with the most
    results come first; a node without a gradient goes into the first group in which it can run."""
    places = {node: place for place, node in enumerate(nodes)}
    sets = sorted(
        {of for of in results_of.values() if of},
        key=lambda of: (-len(of), sorted(places[node] for node in of)),
    )
    left, groups = list(nodes), list[list[Node]]()
    while sets:
        group = next_group(left, sets, results_of, before)
        groups.append(group)
        taken = set(group)
        left = [node for node in left if node not in taken]
        remaining = {results_of[node] for node in left}
        sets = [result_set for result_set in sets if result_set in remaining]
    groups[-1] += left
    return groups


def next_group(
    left: Sequence[Node],
    sets: Sequence[ResultSet],
    results_of: dict[Node, ResultSet],
    before: dict[Node, set[Node]],
) -> list[Node]:
    """The next nodes to cut out: all remaining ones with one set of results, if some set allows
    that; else those of the first possible set that can run now."""
    some: list[Node] = []
    for result_set in sets:
        group = can_run(left, result_set, results_of, before)
        count = sum(results_of[node] == result_set for node in group)
        if count == sum(results_of[node] == result_set for node in left):
            return group
        some = some or (group if count else [])
    return some


def can_run(
    left: Sequence[Node],
    result_set: ResultSet,
    results_of: dict[Node, ResultSet],
    before: dict[Node, set[Node]],
) -> list[Node]:
    """The remaining nodes with these results, or with none, that can run before all others."""
    found, waiting = [], set(left)
    for node in left:
        if (results_of[node] == result_set or not results_of[node]) and waiting.isdisjoint(
            before[node]
        ):
            found.append(node)
            waiting.remove(node)
    return found


def is_view_without_gradient(node: Node) -> bool:
    """Whether a node is a view of a tensor, and neither has a gradient: the subgraph that takes
    h.detach() instead of h has to stay without one."""
    return (
        not any(map(has_gradient, (node, *node.all_input_nodes)))
        and not may_write(node)
        and memory_at(node) in {memory_at(other) for other in node.all_input_nodes} - {None}
    )


# subgraphs


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
