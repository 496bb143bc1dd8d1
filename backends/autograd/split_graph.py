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
from collections.abc import Iterable, Sequence
from typing import Any

import torch
import torch.fx
import torch.utils._pytree as pytree

from ..graph.fake_values import fake_of, fake_tensors_of
from ..graph.memory import memory_at, memory_under
from ..graph.mutations import is_norm, may_write, written_by
from ..graph.node_targets import is_foreign, is_users, name_of
from ..graph.random_draws import may_draw
from .joined_groups import join_groups
from .node_modes import CannotSplit, separate_modes
from .subgraph import Subgraph, make_subgraphs

Node = torch.fx.Node
# The results whose backward pass goes through a node; empty for a node without a gradient.
ResultSet = frozenset[Node]
MAX_SUBGRAPHS = 1024
# Calls of autograd inside the graph; they depend on the nodes around them.
AUTOGRAD = ("grad", "backward", "retain_grad")


class TooManySubgraphs(CannotSplit):
    """The graph could be split, into more subgraphs than are worth their compile."""


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
    together = inseparable_groups(nodes, memories, before, ends)
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


def has_gradient(node: Node) -> bool:
    return any(tensor.requires_grad for tensor in fake_tensors_of(node))


# memory


def memories_of(*nodes: Node) -> set[int]:
    return {
        memory_under(tensor)
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
    nodes: Sequence[Node],
    memories: dict[Node, set[int]],
    before: dict[Node, set[Node]],
    ends: set[Node],
) -> list[list[Node]]:
    """Nodes that must be in one subgraph: those on memory that is written (but for reads of a
    result that is complete), a tuple and its items, and what torch.autograd.grad differentiates
    inside the graph."""
    groups = [
        nodes_up_to_last_write([node for node in nodes if memory in memories[node]], memory, ends)
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


def nodes_up_to_last_write(nodes: Sequence[Node], memory: int, ends: set[Node]) -> list[Node]:
    """The nodes on a memory, without those that read it after the last write through a result of
    the graph, as `head(h)` does in `h = relu_(x @ w); return h, head(h)`. A gradient from `head(h)`
    passes through `h`."""
    writers = [
        place
        for place, node in enumerate(nodes)
        if may_write(node) and memory in memories_of(*targets_of(node))
    ]
    end = max(writers) + 1
    return [
        *nodes[:end],
        *(node for node in nodes[end:] if not only_reads_results(node, memory, ends)),
    ]


def only_reads_results(node: Node, memory: int, ends: set[Node]) -> bool:
    """Whether what a node reads of a memory are results of the graph, and it returns no view."""
    reads = {read for read in node.all_input_nodes if memory in memories_of(read)}
    return reads <= ends and memory not in memories_of(node)


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
