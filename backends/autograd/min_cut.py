"""Chooses the values that the forward pass saves for the backward pass: a minimum cut, weighted by
bytes. The backward pass recomputes the others, if their operators are cheap."""

from __future__ import annotations

import heapq
import math
import operator
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import networkx
import torch
import torch.fx

from ...records import record
from ..graph.copies import Copy
from ..graph.memory import results_of
from ..graph.passes.captured_nodes import SEEDED, draws_random_numbers
from ..graph.passes.symbolic_sizes import hint, is_scalar
from .joint_graph import JointGraph
from .traced_operators import ATEN

Node = Copy
CHEAP = frozenset(
    """sum mean amax amin any var var_mean std argmax to _to_copy clone full_like zeros_like
    ones_like new_zeros new_full full zeros ones
    arange scalar_tensor lift_fresh_copy empty empty_like triu tril index gather copy logical_not
    where masked_fill isinf isnan
    constant_pad_nd broadcast_tensors _unsafe_view""".split()
)
# A value as the minimum cut sees it: the cost of saving it, whether it must be saved, whether the
# backward pass needs it, and the values that may be recomputed from it.
CutNode = tuple[float, bool, bool, tuple[int, ...]]
WIDE = "cat"  # producers can be fused into it; it is fused into nothing


MAX_CHAIN = 100  # nodes in a chain of cheap operators that are recomputed
COMPARISONS = frozenset(getattr(ATEN, name).Tensor for name in ("eq", "ne", "ge", "gt", "le", "lt"))


# Operators that do not round: comparing their results compares their inputs.
EXACT = frozenset({ATEN.abs.default, ATEN.neg.default, ATEN.clone.default, ATEN._to_copy.default})
DISTANCE = 1.1  # factor on the cost of saving a value, for each step away from the backward pass


# On these devices a cheap value is recomputed about as fast as it is read from memory, so values of
# at least LARGE_BYTES are recomputed rather than kept until the backward pass.
FAST_DEVICES = frozenset({"cuda"})
LARGE_BYTES = 4 << 20


def compared_values(nodes: Iterable[Any]) -> set[Any]:
    """Values that are compared with another tensor, such as `l == l.amax()` in the backward pass of
    a maximum. They must not be recomputed: in another loop they may round differently, and no
    element would equal the largest one. (Integers do not round.)"""
    todo = [
        value
        for node in nodes
        if node.target in COMPARISONS
        for value in node.all_input_nodes
        if value.meta["val"].dtype.is_floating_point
    ]
    found = set()
    while todo:
        value = todo.pop()
        if value in found:
            continue
        found.add(value)
        if is_view_or_item(value) or value.target in EXACT:
            todo += value.all_input_nodes
    return {value for value in found if not is_view_or_item(value)}


def is_view_or_item(node: Any) -> bool:
    """Whether a node is a view of its input, or one of several results."""
    return node.target is operator.getitem or view(node)


class MinCut:
    """Decides which values to save. forward_nodes: nodes that the forward results need.
    gradient_nodes: nodes that the gradients need. overwritten: values that would have to be copied
    to be saved."""

    def __init__(
        self,
        joint: JointGraph,
        forward_nodes: set[Node],
        gradient_nodes: set[Node],
        overwritten: set[Node],
    ) -> None:
        # the backward pass computes scalars again, from sizes that it gets
        self.joint, self.forward_nodes = joint, without_scalars(forward_nodes)
        self.overwritten = overwritten
        self.results = set(joint.results)
        self.sizes: dict[int, int] = {}
        before = self.forward_nodes | without_scalars(gradient_nodes)
        self.forward = [node for node in joint.forward if node in before]
        self.backward = without_scalars(gradient_nodes).difference(self.forward)
        self.order = {node: position for position, node in enumerate(self.forward)}
        self.steps = self.distances()
        self.parameters = set(joint.inputs.values()) - overwritten
        self.compared = compared_values(joint.nodes)
        self.must_be_saved = {node for node in self.forward if self.must_save(node)}
        self.save_unfusible_users()
        self.cut_long_chains()

    def distances(self) -> dict[Node, int]:
        """The number of steps from each node to the backward pass."""
        steps: dict[Node, int] = {}
        for node in reversed(self.forward):
            away = [
                0 if user in self.backward else steps.get(user, 1 << 30) + 1 for user in node.users
            ]
            steps[node] = min(away, default=1 << 30)
        return steps

    def must_save(self, node: Node) -> bool:
        """Whether a node must be saved instead of recomputed."""
        if node.op == "placeholder" or draws_random_numbers(node) or node in self.compared:
            return True
        if node.target is operator.getitem or node not in self.forward_nodes:
            return False
        if not is_cheap(node) or (self.is_needed_in_memory(node) and not self.is_large(node)):
            return True
        # the result of a reduction is small
        return 4 * self.size(node) < sum(map(self.size, node.all_input_nodes))

    def is_large(self, node: Node) -> bool:
        """Whether a value is so large that recomputing it is better than keeping it in memory."""
        value = node.meta.get("val")
        return (
            isinstance(value, torch.Tensor)
            and value.device.type in FAST_DEVICES
            and self.size(node) >= LARGE_BYTES
        )

    def is_needed_in_memory(self, node: Node) -> bool:
        """Whether an operator of the backward pass that cannot be fused with the node reads its
        value, directly or through views."""
        if view(node):
            return False
        todo = [node]
        while todo:
            one = todo.pop()
            for user in one.users:
                if user in self.backward and not is_fusible(one, user):
                    return True
                if view(user):
                    todo.append(user)
        return False

    def save(self, node: Node) -> None:
        if not view(node):
            self.must_be_saved.add(node)

    def save_unfusible_users(self) -> None:
        """Saves users of a value that could not be fused with its other users if they were
        recomputed, because an operator that cannot be fused lies between."""
        for node in self.forward:
            users = [user for user in node.users if user in self.forward_nodes]
            if len(users) > 1:
                limit = self.first_unfusible(users, max(self.order[user] for user in users))
                for user in users:
                    if self.order[user] > limit and is_fusible(node, user):
                        self.save(user)

    def first_unfusible(self, start: Iterable[Node], most: int) -> int:
        """The position of the first node after `start`, up to `most`, that no kernel computes
        together with all the nodes from there."""
        queue = [(self.order[node], True) for node in start]
        heapq.heapify(queue)
        seen: set[int] = set()
        while queue:
            position, fused = heapq.heappop(queue)
            if not fused:
                return position
            node = self.forward[position]
            for user in node.users:
                if (
                    user in self.forward_nodes
                    and (at := self.order[user]) <= most
                    and at not in seen
                ):
                    together = is_fusible(node, user)
                    if together:
                        seen.add(at)
                    heapq.heappush(queue, (at, together))
        return most

    def cut_long_chains(self) -> None:
        """Saves a value in each chain of cheap operators that is too long to be recomputed."""
        visited: set[Node] = set()
        for start in self.forward:
            queue = [self.order[start]] if start in self.forward_nodes else []
            while queue:
                position = heapq.heappop(queue)
                node = self.forward[position]
                if node in visited:
                    continue
                visited.add(node)
                if position > self.order[start] + MAX_CHAIN and not queue:
                    self.save(node)
                    break
                for user in node.users:
                    if (
                        user in self.forward_nodes
                        and user not in self.must_be_saved
                        and is_fusible(node, user)
                    ):
                        heapq.heappush(queue, self.order[user])

    def saved_nodes(self) -> list[Node]:
        """The values that the forward pass saves, inputs included."""
        # repeated blocks of a model have the same cut
        solved: dict[tuple[CutNode, ...], list[int]] = {}
        saved = []
        for group in self.groups():
            local = {node: number for number, node in enumerate(group)}
            question = tuple(self.cut_node(node, local) for node in group)
            if question not in solved:
                solved[question] = minimum_cut(question)
            saved += [group[number] for number in solved[question]]
        return saved

    def groups(self) -> Iterable[list[Node]]:
        """The values, in groups that can be decided separately: within a group, values may be
        recomputed from each other."""
        together = networkx.utils.UnionFind(self.forward)
        for node in self.forward:
            together.union(node, *self.followers(node))
        return (sorted(group, key=self.order.__getitem__) for group in together.to_sets())

    def followers(self, node: Node) -> list[Node]:
        """The users of a node that may be recomputed from it."""
        return [
            user for user in node.users if user in self.order and user not in self.must_be_saved
        ]

    def cut_node(self, node: Node, local: dict[Node, int]) -> CutNode:
        """The node for `minimum_cut`."""
        needed = any(user in self.backward for user in node.users)
        return (
            self.save_cost(node),
            node in self.must_be_saved,
            needed,
            tuple(local[user] for user in self.followers(node)),
        )

    def size(self, node: Node) -> int:
        """The bytes of a value. Copies of one node share their fake results, so the size is cached
        by them."""
        key = id(node.meta.get("val"))
        if key not in self.sizes:
            self.sizes[key] = size(node)
        return self.sizes[key]

    def save_cost(self, node: Node) -> float:
        """The cost of saving a node's value."""
        if not isinstance(node.meta.get("val"), torch.Tensor):
            return math.inf
        if node in self.parameters:
            return 0
        bytes_ = self.size(node) * DISTANCE ** max(min(self.steps[node], 100), 1)
        if node in self.overwritten:
            bytes_ *= 2  # read and written once more
        return int(2 * bytes_ if self.is_only_fused(node) else bytes_)

    def is_only_fused(self, node: Node) -> bool:
        """Whether kernels that compute a value also contain all that read it, directly or through
        views: it is written to memory only if it is saved. (Results are written.)"""
        todo = [node]
        for one in todo:
            users = without_scalars(one.users)
            if one in self.results or not all(is_fusible(one, user) for user in users):
                return False
            todo += [user for user in users if view(user)]
        return True


def minimum_cut(positions: Sequence[CutNode]) -> list[int]:
    """Which of these values to save: a minimum cut between those that must be saved and those that
    the backward pass needs."""
    if not any(needed for _, _, needed, _ in positions):
        return []
    flow = networkx.DiGraph()
    for number, (save_cost, fixed, needed, followers) in enumerate(positions):
        flow.add_edge((number, False), (number, True), capacity=save_cost)
        flow.add_edges_from(((number, True), (other, False)) for other in followers)
        if fixed:
            flow.add_edge("source", (number, False))
        if needed:
            flow.add_edge((number, True), "sink")
    if "source" not in flow:
        return []
    _, (near, _) = networkx.minimum_cut(flow, "source", "sink")
    return [
        number
        for number in range(len(positions))
        if (number, False) in near and (number, True) not in near
    ]


@record
class OperatorFacts:
    """Facts about an operator. `view`: its result is a view of its input. `cheap`: recomputing it
    costs little more than reading its inputs."""

    name: str
    view: bool
    cheap: bool


@lru_cache(4096)
def operator_facts(target: Any) -> OperatorFacts:
    if not isinstance(target, torch._ops.OpOverload):
        return OperatorFacts("", False, target is operator.getitem)
    schema = target._schema
    name = schema.name.rpartition("::")[2]
    view = not schema.is_mutable and any(
        argument.alias_info is not None for argument in schema.arguments
    )
    cheap = SEEDED not in target.tags and (
        torch.Tag.pointwise in target.tags or view or name in CHEAP
    )
    return OperatorFacts(name, view, cheap)


def node_name(node: Node) -> str:
    return operator_facts(node.target).name


def view(node: Node) -> bool:
    return operator_facts(node.target).view


def is_cheap(node: Node) -> bool:
    return operator_facts(node.target).cheap


def is_fusible(one: Node, other: Node) -> bool:
    """Whether one kernel may compute both."""
    return operator_facts(other.target).name == WIDE or (is_light(one) and is_light(other))


def is_light(node: Node) -> bool:
    return is_cheap(node) or (
        draws_random_numbers(node)
        and isinstance(node.meta.get("val"), torch.Tensor)
        and not node.inputs
    )


def without_scalars(nodes: Iterable[Node]) -> set[Node]:
    """The nodes that are tensors."""
    return {node for node in nodes if not is_scalar(node)}


def size(node: Node) -> int:
    """The bytes of a node's results in the call that is compiled for."""
    return sum(
        math.prod(map(hint, item.shape)) * item.element_size()
        for item in results_of(node)
        if isinstance(item, torch.Tensor)
    )
