"""Joins groups of a split graph (split_graph.py) where autograd cannot tell the difference.

Transformers return the keys and the values of each layer, for their cache. In eager, a backward
pass from the values does not run the projection of the keys, so keys and values would be subgraphs
of their own, three in each layer. Joined to the group that they are computed from, they get zeros
as gradients in such a pass. Autograd sees the same as before:

- No result lies between the two groups, so the joined one hides no gradient that a hook sees or
  that torch.autograd.grad returns.
- A backward pass through either group runs all of the first one. Where that frees what it has
  saved, a second pass raises in both cases.

Only a pass from a result that other results are computed from, as from such values, runs the first
group without the second. Such passes are rare, so the zeros cost less than one more subgraph.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import torch.fx

from ..graph.fake_values import fake_tensors_of
from ..graph.mutations import is_norm, may_write

Node = torch.fx.Node
Groups = list[list[Node]]


def join_groups(
    groups: Sequence[Sequence[Node]],
    results_of: Mapping[Node, frozenset[Node]],
    before: Mapping[Node, Collection[Node]],
) -> Groups:
    """The groups, each joined to the last one that it follows where that is possible. results_of:
    the results whose backward pass goes through a node; before: what must run before it."""
    joined: Groups = []
    places: dict[Node, int] = {}
    for group in groups:
        earlier = [places[other] for node in group for other in before[node] if other in places]
        place = max(earlier, default=-1)
        if place < 0 or not may_join(set(joined[place]), group, results_of):
            place = len(joined)
            joined.append([])
        joined[place] += group
        places |= dict.fromkeys(group, place)
    order = {node: number for number, node in enumerate(before)}
    return [sorted(group, key=order.__getitem__) for group in joined]


def may_join(
    first: set[Node], second: Sequence[Node], results_of: Mapping[Node, frozenset[Node]]
) -> bool:
    """Whether autograd cannot tell the two groups from one, of which the second follows the
    first."""
    trained = [node for node in second if results_of[node]]
    inside = first.union(second)
    results = frozenset[Node]().union(*(results_of[node] for node in trained))
    entered = {
        other
        for node in trained
        for other in node.all_input_nodes
        if other in first and results_of[other]
    }
    without = frozenset[Node]().union(*(results_of[node] for node in entered)) - results
    if not entered or any(
        node in results_of[node] or not results < results_of[node] for node in entered
    ):
        return False
    if any(results_of[result] == {result} for result in without):
        return False
    if any(may_write(node) and not is_norm(node) for node in inside):
        return False  # a result is what it is after the last write
    ends = [node for node in trained if not inside.issuperset(node.users)]
    return not any(map(saves, second)) or all(
        any(other in first and saves(other) for other in upstream(node, inside)) for node in ends
    )


def upstream(node: Node, inside: Collection[Node]) -> Iterator[Node]:
    """The nodes that a node is computed from, of those inside."""
    seen, todo = {node}, [node]
    while todo:
        for other in todo.pop().all_input_nodes:
            if other in inside and other not in seen:
                seen.add(other)
                todo.append(other)
                yield other


def saves(node: Node) -> bool:
    """Whether autograd saves tensors for the backward pass of a node. Of an item of a tuple, what
    is saved on the way to it counts, too."""
    inputs = {fake.grad_fn for other in node.all_input_nodes for fake in fake_tensors_of(other)}
    seen: set[Any] = {None, *inputs}
    todo: list[Any] = [fake.grad_fn for fake in fake_tensors_of(node)]
    while todo:
        history = todo.pop()
        if history in seen:
            continue
        seen.add(history)
        if saves_tensors(history):
            return True
        todo += [following for following, _ in history.next_functions]
    return False


def saves_tensors(history: Any) -> bool:
    """Whether a node of autograd's graph may save tensors."""
    if hasattr(history, "saved_tensors"):  # of an autograd.Function
        return True
    return any(name.startswith("_raw_saved_") for name in dir(history))
