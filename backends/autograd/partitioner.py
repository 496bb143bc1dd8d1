"""A joint graph in two: what the forward pass keeps for the backward pass is found by a minimum
cut, by bytes. What is not kept is computed again, which is only allowed to operators that are cheap
and stay next to what uses them."""

from __future__ import annotations

import heapq
import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import networkx
import torch
import torch.fx
from torch.fx._lazy_graph_module import _LazyGraphModule

from ..graph.passes.by_operator import SEEDED, WRITE, NeedsWholeTrace, draws, window
from ..graph.passes.copies import Copies, Copy, template
from ..graph.passes.memory import memories, results_of
from .joint import Joint
from .traced_operators import ATEN

Node = Copy
CHEAP = frozenset(
    """sum mean amax amin any var var_mean std argmax to _to_copy clone full_like zeros_like
    ones_like new_zeros new_full full zeros ones
    arange scalar_tensor lift_fresh_copy empty empty_like triu tril index gather copy logical_not
    where masked_fill isinf isnan
    constant_pad_nd broadcast_tensors _unsafe_view""".split()
)
Place = tuple[
    float, bool, bool, tuple[int, ...]
]  # price, whether it is not computed again, needed behind, who is made of it
WIDE = "cat"  # takes what is fused into it, and is fused into nothing
FAR = 100  # nodes that one chain of cheap operators may be long
COMPARISONS = frozenset(getattr(ATEN, name).Tensor for name in ("eq", "ne", "ge", "gt", "le", "lt"))
# operators that do not round: a comparison of their results is one of what they are given
EXACT = frozenset({ATEN.abs.default, ATEN.neg.default, ATEN.clone.default, ATEN._to_copy.default})
DISTANCE = 1.1  # what each step away from the backward pass makes a value dearer to keep
# only writes running statistics while training; its backward pass is given them and reads nothing
NORM = "batch_norm"
CLONE = template(ATEN.clone.default, "old")
FAST = frozenset(
    {"cuda"}
)  # devices that compute a value once more in the time that reading it takes,
LARGE = (
    4 << 20
)  # and do so from this many bytes on, rather than that they lie there until the backward pass


@dataclass(frozen=True)
class Partition:
    """Two functional graphs. The forward one returns `results` results and then what it keeps; the
    backward one takes inputs of the forward one, at the positions `kept_inputs`, what was kept, and
    gradients of the results at `tangents`, and returns the gradient of the inputs at `wanted`, None
    for some. `fixed`: positions of results without a gradient."""

    forward: Copies
    backward: Copies
    results: int
    kept_inputs: tuple[int, ...]
    tangents: tuple[int, ...]
    wanted: tuple[int, ...]
    fixed: tuple[int, ...]


def partition(joint: Joint) -> Partition:
    """The joint graph's forward and backward parts."""
    old = old_content(joint)
    if any(not old.isdisjoint(node.inputs) for node in joint.nodes[len(joint.forward) :]):
        raise NeedsWholeTrace  # eager's backward pass raises: what it needs was written to
    needed = [node for node in joint.gradients.values() if node is not None]
    behind = ancestors(needed, set(joint.tangents.values()))
    first = ancestors(roots(joint), set())
    kept = MinCut(joint, first, behind, old).saved_nodes()
    order = {node: place for place, node in enumerate(joint.nodes)}
    inputs = list(joint.inputs.values())
    again = [
        node
        for node in sorted(ancestors(needed, {*kept, *inputs}), key=order.__getitem__)
        if node.op != "placeholder"
    ]
    inside = {*again, *joint.tangents.values()}
    entering = {*(other for node in again for other in node.inputs), *needed} - inside
    kept_inputs = [node for node in inputs if node in entering - old]
    kept = sorted(entering - set(kept_inputs), key=order.__getitem__)
    forward = forward_graph(joint, kept, order, old)
    backward = backward_graph(
        joint,
        [*kept_inputs, *kept, *joint.tangents.values()],
        recomputed_nodes(again, set(joint.forward)),
    )
    places = {node: place for place, node in enumerate(inputs)}
    return Partition(
        forward, backward, len(joint.results), tuple(places[node] for node in kept_inputs),
        tuple(joint.tangents),
        tuple(places[node] for node in joint.gradients),
        tuple(number for number, trains in enumerate(joint.trains) if not trains),
    )  # fmt: skip


def old_content(joint: Joint) -> set[Node]:
    """Inputs that are written to when the forward pass has run, and what shares their memory: the
    backward pass gets copies of them. Statistics of norms are left out."""
    written = (node for node in joint.writes if not all(NORM in name(user) for user in node.users))
    memory = {own for node in written for own in memories(node)}
    return {node for node in joint.forward if memory and not memory.isdisjoint(memories(node))}


def roots(joint: Joint) -> list[Node]:
    """What the forward pass is for: results, new values of inputs, and that numbers are drawn, read
    or not."""
    return [
        *joint.results,
        *joint.writes.values(),
        *(node for node in joint.forward if draws(node)),
    ]


def recomputed_nodes(again: Sequence[Node], forward: set[Node]) -> Iterable[Node]:
    """The nodes of a backward pass, what is computed again of the forward one right in front of
    what needs it: done early it would take up memory."""
    ordered: dict[Node, None] = {}
    inside = set(again)
    for node in (*(node for node in again if node not in forward), *again):
        todo = [node]
        while todo:
            missing = [
                other for other in todo[-1].inputs if other in inside and other not in ordered
            ]
            if missing:
                todo.append(missing[0])
            else:
                ordered[todo.pop()] = None
    return ordered


def forward_graph(
    joint: Joint, kept: Sequence[Node], order: dict[Node, int], old: set[Node]
) -> Copies:
    graph = Copies(joint.operators.constants, "Forward")
    inputs = list(joint.inputs.values())
    copies = {node: graph.placeholder(node.name, node.meta) for node in inputs}
    wanted = ancestors([*roots(joint), *kept], set(inputs))
    for node in sorted(wanted - set(inputs), key=order.__getitem__):
        copies[node] = graph.again(node, copies)
    handed_on = [copy_node(graph, copies[node]) if node in old else copies[node] for node in kept]
    for target, value in joint.writes.items():
        graph.add(WRITE, (copies[target], copies[value]), {"val": target.meta["val"]})
    graph.output([*(copies[node] for node in joint.results), *handed_on])
    return graph


def copy_node(graph: Copies, node: Node) -> Node:
    """A copy of a tensor, laid as that is."""
    made = graph.add(CLONE, (node,), {"val": node.meta["val"].clone(), "memory": [object()]})
    if window(made.meta["val"]) != window(node.meta["val"]):
        raise NeedsWholeTrace
    return made


def backward_graph(joint: Joint, inputs: Sequence[Node], nodes: Iterable[Node]) -> Copies:
    graph = Copies(joint.operators.constants, "Backward")
    copies = {node: graph.placeholder(node.name or node.source.name, node.meta) for node in inputs}
    for node in nodes:
        copies[node] = graph.again(node, copies)
    graph.output(
        [None if gradient is None else copies[gradient] for gradient in joint.gradients.values()]
    )
    return graph


def runnable(gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The module, its code written."""
    if isinstance(gm, _LazyGraphModule):
        _LazyGraphModule.force_recompile(gm)
    return gm


def ancestors(roots: Iterable[Node], ends: set[Node]) -> set[Node]:
    """What nodes are made of, themselves among it, up to `ends`, which are left out."""
    found: set[Node] = set()
    todo = [node for node in roots if node not in ends]
    while todo:
        node = todo.pop()
        if node not in found:
            found.add(node)
            todo += [other for other in node.inputs if other not in ends]
    return found


def compared_values(nodes: Iterable[Any]) -> set[Any]:
    """What is compared with another tensor: `l == l.amax()` in the backward pass of a maximum.
    Computed again, in another loop, it may round otherwise, and no element would be the largest
    one."""
    todo = [value for node in nodes if node.target in COMPARISONS for value in node.all_input_nodes]
    found = set()
    while todo:
        value = todo.pop()
        if value in found:
            continue
        found.add(value)
        if is_part_of(value) or value.target in EXACT:
            todo += value.all_input_nodes
    return {value for value in found if not is_part_of(value)}


def is_part_of(node: Any) -> bool:
    """Whether a node is a view of its input, or one of several results."""
    return node.target is operator.getitem or view(node)


class MinCut:
    """first: nodes of the forward pass that its results need. behind: nodes that gradients need.
    old: what is copied to be kept."""

    def __init__(self, joint: Joint, first: set[Node], behind: set[Node], old: set[Node]) -> None:
        self.joint, self.first = joint, first
        self.sizes: dict[int, int] = {}
        self.forward = [node for node in joint.forward if node in first or node in behind]
        before = set(self.forward)
        self.backward = behind - before
        self.order = {node: place for place, node in enumerate(self.forward)}
        self.steps = self.distances()
        self.parameters = set(joint.inputs.values()) - old
        self.compared = compared_values(joint.nodes)
        self.fixed = {node for node in self.forward if self.stays(node)}
        self.keep_apart()
        self.keep_short()

    def distances(self) -> dict[Node, int]:
        """How many steps there are from a node to the backward pass."""
        steps: dict[Node, int] = {}
        for node in reversed(self.forward):
            away = [
                0 if user in self.backward else steps.get(user, 1 << 30) + 1 for user in node.users
            ]
            steps[node] = min(away, default=1 << 30)
        return steps

    def stays(self, node: Node) -> bool:
        """Whether a node is not computed again."""
        if node.op == "placeholder" or draws(node) or node in self.compared:
            return True
        if node.target is operator.getitem or node not in self.first:
            return False
        if not cheap(node) or (self.laid_down(node) and not self.large(node)):
            return True
        return 4 * self.size(node) < sum(
            map(self.size, node.all_input_nodes)
        )  # of a reduction the result is small

    def large(self, node: Node) -> bool:
        """Whether a value takes up so much memory that it is rather written twice."""
        value = node.meta.get("val")
        return (
            isinstance(value, torch.Tensor)
            and value.device.type in FAST
            and self.size(node) >= LARGE
        )

    def laid_down(self, node: Node) -> bool:
        """Whether something in the backward pass wants a node's value in memory, itself or seen
        through views."""
        if view(node):
            return False
        todo = [node]
        while todo:
            one = todo.pop()
            for user in one.users:
                if user in self.backward and not fusible(one, user):
                    return True
                if view(user):
                    todo.append(user)
        return False

    def fix(self, node: Node) -> None:
        if not view(node):
            self.fixed.add(node)

    def keep_apart(self) -> None:
        """Users of one value, some of them behind what cannot be fused with it, would not be fused
        when computed again: they stay."""
        for node in self.forward:
            users = [user for user in node.users if user in self.first]
            if len(users) > 1:
                limit = self.first_unfusible(users, max(self.order[user] for user in users))
                for user in users:
                    if self.order[user] > limit and fusible(node, user):
                        self.fix(user)

    def first_unfusible(self, start: Iterable[Node], most: int) -> int:
        queue = [(self.order[node], True) for node in start]
        heapq.heapify(queue)
        seen: set[int] = set()
        while queue:
            place, fused = heapq.heappop(queue)
            if not fused:
                return place
            node = self.forward[place]
            for user in node.users:
                if user in self.first and (at := self.order[user]) <= most and at not in seen:
                    together = fusible(node, user)
                    if together:
                        seen.add(at)
                    heapq.heappush(queue, (at, together))
        return most

    def keep_short(self) -> None:
        """Ends chains of cheap operators that are too long to be computed again."""
        visited: set[Node] = set()
        for start in self.forward:
            queue = [self.order[start]] if start in self.first else []
            while queue:
                place = heapq.heappop(queue)
                node = self.forward[place]
                if node in visited:
                    continue
                visited.add(node)
                if place > self.order[start] + FAR and not queue:
                    self.fix(node)
                    break
                for user in node.users:
                    if user in self.first and user not in self.fixed and fusible(node, user):
                        heapq.heappush(queue, self.order[user])

    def saved_nodes(self) -> list[Node]:
        """What the forward pass keeps, inputs among it."""
        solved: dict[
            tuple[Place, ...], list[int]
        ] = {}  # blocks that are repeated ask the same question
        kept = []
        for group in self.groups():
            local = {node: number for number, node in enumerate(group)}
            question = tuple(self.place(node, local) for node in group)
            if question not in solved:
                solved[question] = minimum_cut(question)
            kept += [group[number] for number in solved[question]]
        return kept

    def groups(self) -> Iterable[list[Node]]:
        """Nodes that are decided on together: each may be computed again of others in it."""
        together = networkx.utils.UnionFind(self.forward)
        for node in self.forward:
            together.union(node, *self.followers(node))
        return (sorted(group, key=self.order.__getitem__) for group in together.to_sets())

    def followers(self, node: Node) -> list[Node]:
        """The users of a node that may be computed again of it."""
        return [user for user in node.users if user in self.order and user not in self.fixed]

    def place(self, node: Node, local: dict[Node, int]) -> Place:
        needed = any(user in self.backward for user in node.users)
        return (
            self.price(node),
            node in self.fixed,
            needed,
            tuple(local[user] for user in self.followers(node)),
        )

    def size(self, node: Node) -> int:
        """As size; copies of one node share their fake results."""
        key = id(node.meta.get("val"))
        if key not in self.sizes:
            self.sizes[key] = size(node)
        return self.sizes[key]

    def price(self, node: Node) -> float:
        """What keeping a node's value costs."""
        if not isinstance(node.meta.get("val"), torch.Tensor):
            return math.inf
        if node in self.parameters:
            return 0
        bytes_ = self.size(node) * DISTANCE ** max(min(self.steps[node], 100), 1)
        return int(2 * bytes_ if all(fusible(node, user) for user in node.users) else bytes_)


def minimum_cut(places: Sequence[Place]) -> list[int]:
    """Which of some values to keep, by a minimum cut between what is not computed again and what
    the backward pass needs."""
    if not any(needed for _, _, needed, _ in places):
        return []
    flow = networkx.DiGraph()
    for number, (price, fixed, needed, followers) in enumerate(places):
        flow.add_edge((number, False), (number, True), capacity=price)
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
        for number in range(len(places))
        if (number, False) in near and (number, True) not in near
    ]


@dataclass(frozen=True)
class OperatorFacts:
    """What is known of a node by its operator. `view`: its result is a window on its input.
    `cheap`: to compute it again costs little more than to read its inputs."""

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


def name(node: Node) -> str:
    return operator_facts(node.target).name


def view(node: Node) -> bool:
    return operator_facts(node.target).view


def cheap(node: Node) -> bool:
    return operator_facts(node.target).cheap


def fusible(one: Node, other: Node) -> bool:
    """Whether one kernel may compute both."""
    return operator_facts(other.target).name == WIDE or (is_light(one) and is_light(other))


def is_light(node: Node) -> bool:
    return cheap(node) or (
        draws(node) and isinstance(node.meta.get("val"), torch.Tensor) and not node.inputs
    )


def size(node: Node) -> int:
    return sum(
        item.numel() * item.element_size()
        for item in results_of(node)
        if isinstance(item, torch.Tensor)
    )
