"""A graph under DistributedDataParallel is compiled in several subgraphs, so that gradients are
reduced while others are computed.

The backward pass of a compiled graph is one node of autograd's, which returns the gradients of all
its parameters at once. DistributedDataParallel reduces them in buckets as they arrive: between
processes nothing would happen before the end. (torch.compile splits its graphs, too.)
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any

import torch.fx
from torch.nn.parallel import DistributedDataParallel

from ..autograd.node_modes import CannotSplit, Modes, separate_modes
from ..graph.fake_values import bytes_of, fake_of
from ..graph.gradient_history import lost_its_history, needs_gradient, wants_gradients
from .uncompiled_nodes import Build, calls_of, compile_groups, write_memory_from_outside

Node = torch.fx.Node
MOST_SUBGRAPHS = 5  # each costs a call, and values that pass from one to the next
# a cut is made where little passes, among the places that give subgraphs of this share of a bucket
SHARES = 1.0, 1.6
LEAST = 0.25  # of a bucket, in the first subgraph
TOGETHER = 1 << 60  # bytes: of a tuple, which stays in one subgraph with its items


def bucket_bytes() -> int:
    """The size of a bucket of the DistributedDataParallel in whose call a graph is compiled; 0
    without one."""
    active = DistributedDataParallel._get_active_ddp_module()
    return 0 if active is None else int(active.bucket_bytes_cap)


def in_buckets(build: Build, size: int) -> Build:
    """Returns a `build` that compiles graphs in subgraphs with about `size` bytes of gradients
    each, or more; a graph with gradients of fewer is compiled whole."""

    def build_in_buckets(gm: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        try:
            groups, modes = bucket_groups(gm, size)
            if len(groups) < 2 or write_memory_from_outside(groups):
                return build(gm, examples)
            return compile_groups(gm, examples, groups, modes, lambda node: False, build)
        except CannotSplit:
            return build(gm, examples)

    return build_in_buckets


def bucket_groups(
    gm: torch.fx.GraphModule, size: int
) -> tuple[list[list[Node]], dict[Node, Modes]]:
    """The nodes of a graph in groups, in their order. Raises CannotSplit."""
    nodes, modes = separate_modes(calls_of(gm))
    if not wants_gradients(gm):
        return [nodes], modes
    gradients = gradient_bytes(nodes)
    size = max(size, sum(gradients) // MOST_SUBGRAPHS)
    cuts = [0, *cut_places(gradients, passing_bytes(nodes), size), len(nodes)]
    return [nodes[start:end] for start, end in pairwise(cuts)], modes


def gradient_bytes(nodes: Sequence[Node]) -> list[int]:
    """For each node, the bytes of the parameters whose gradients are complete after its backward
    pass: those that it is the first to use."""
    seen: set[Node] = set()
    found = []
    for node in nodes:
        new = [other for other in node.all_input_nodes if is_parameter(other) and other not in seen]
        seen.update(new)
        found.append(sum(int(bytes_of(other)) for other in new))
    return found


def is_parameter(node: Node) -> bool:
    """Whether a node is an input whose gradient autograd accumulates."""
    takes = node.op == "placeholder" and needs_gradient(node) and not lost_its_history(node)
    return takes and bool(fake_of(node).is_leaf)


def is_taken_apart(node: Node) -> bool:
    """Whether a node gives several values, which others take as its items."""
    items = any(user.target is operator.getitem for user in node.users)
    return items and not isinstance(fake_of(node), torch.Tensor)


def passing_bytes(nodes: Sequence[Node]) -> list[int]:
    """For each node, the bytes that pass from the nodes before it to it and to those after it."""
    places = {node: place for place, node in enumerate(nodes)}
    changes = [0] * (len(nodes) + 1)
    for node, place in places.items():
        last = max((places.get(user, place) for user in node.users), default=place)
        if last > place:
            size = TOGETHER if is_taken_apart(node) else int(bytes_of(node))
            changes[place + 1] += size
            changes[last + 1] -= size
    return [*accumulate(changes)][:-1]


def cut_places(gradients: Sequence[int], passing: Sequence[int], size: int) -> list[int]:
    """The places before which a graph is cut, in its order. Counted from the end, where the
    backward pass begins, each subgraph has `size` bytes of gradients or somewhat more; the first
    one may have fewer."""
    places: list[int] = []
    end = len(gradients)
    while True:
        totals = [*accumulate(reversed(gradients[:end]))]  # by the length of a subgraph, minus 1
        lower, upper = (size * share for share in SHARES)
        large = [(end - length, total) for length, total in enumerate(totals, 1) if total >= lower]
        possible = [place for place, total in large if total < upper]
        if not possible:  # one parameter is as large as several subgraphs
            possible = [place for place, _ in large[:1]]
        best = min(possible, key=lambda place: (passing[place], -place), default=0)
        if sum(gradients[:best]) < size * LEAST:
            return places[::-1]
        places.append(best)
        end = best
