"""What two captured graphs must have in common to be compiled to one function: operators,
constants, wiring, and of their tensors layout, memory and gradients. Names and lines do not matter.

Subgraphs of equal blocks are compiled once with it.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor

from .gradient_history import comes_with_gradient, gains_history, has_readable_history
from .passes.captured_nodes import PLAIN, is_understood, window_of
from .passes.symbolic_sizes import comparable

CALLS = ("call_function", "call_method")
# In the meta of a graph module: what was made of graphs of its structure, for the copies and the
# equal subgraphs that are still to be compiled.
SHARED = "shared"


class NotComparable(Exception):
    """The graph holds something of which it is not known when two are equal."""


class Identical:
    """An object that equals only itself."""

    __slots__ = ("item",)

    def __init__(self, item: Any) -> None:
        self.item = item

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identical) and self.item is other.item

    def __hash__(self) -> int:
        return id(self.item)


def structure_of(gm: torch.fx.GraphModule) -> Hashable | None:
    """Equal for captured graphs of which one compiled function serves all; None where that is not
    known."""
    try:
        return Structure().of(gm.graph)
    except NotComparable:
        return None


def shared_results(gm: torch.fx.GraphModule) -> dict[Any, Any]:
    """What was made of graphs of this structure; an empty dictionary of its own where nothing is
    shared."""
    found: dict[Any, Any] | None = gm.meta.get(SHARED)
    return {} if found is None else found


def share_with_equal_subgraphs(
    gm: torch.fx.GraphModule, subgraph: torch.fx.GraphModule, position: int
) -> None:
    """Lets equal subgraphs of a graph share their results. position: of the subgraph; by it,
    copies of one that is equal to no other share theirs."""
    if SHARED in gm.meta:
        key = structure_of(subgraph) or ("subgraph", position)
        subgraph.meta[SHARED] = gm.meta[SHARED].setdefault(key, {})


class Structure:
    """Numbers nodes, tensors and memory by their first use."""

    def __init__(self) -> None:
        self.nodes: dict[torch.fx.Node, int] = {}
        self.tensors: dict[int, int] = {}
        self.memory: dict[int, int] = {}

    def of(self, graph: torch.fx.Graph) -> Hashable:
        return torch.is_grad_enabled(), *map(self.node, graph.nodes)

    def node(self, node: torch.fx.Node) -> Hashable:
        self.nodes[node] = len(self.nodes)
        if node.op == "placeholder":
            mutated = bool(node.meta.get("mutated"))
            history = comes_with_gradient(node), gains_history(node)
            return self.value(node.meta.get("example_value")), mutated, *history
        if node.op == "output":
            return self.argument(node.args)
        if node.op not in CALLS:
            raise NotComparable
        target = node.target if isinstance(node.target, str) else Identical(node.target)
        arguments = self.argument(node.args), self.argument(node.kwargs)
        return target, *arguments, self.value(node.meta.get("example_value"))

    def argument(self, tree: Any) -> Hashable:
        """What two equal nodes have in common in an argument: nodes as their numbers, numbers with
        their types."""
        if isinstance(tree, torch.fx.Node):
            return torch.fx.Node, self.nodes[tree]
        if isinstance(tree, (tuple, list)):
            return type(tree), *map(self.argument, tree)
        if isinstance(tree, dict):
            keys = (key if type(key) is str else Identical(key) for key in tree)
            return dict, *zip(keys, map(self.argument, tree.values()), strict=True)
        if isinstance(tree, slice):
            return slice, *map(self.argument, (tree.start, tree.stop, tree.step))
        if isinstance(tree, PLAIN):
            return type(tree), tree
        if isinstance(tree, float | complex):  # 0.0 and -0.0 are equal, nan is not
            return type(tree), repr(tree)
        return Identical(tree)

    def value(self, value: Any) -> Hashable:
        """What a node's result has to be."""
        if isinstance(value, (tuple, list)):
            return type(value), *map(self.value, value)
        if not is_understood(value):
            raise NotComparable
        if isinstance(value, FakeTensor):
            return self.tensor(value)
        return comparable(value) if isinstance(value, torch.SymInt) else None

    def tensor(self, fake: FakeTensor) -> Hashable:
        storage = fake.untyped_storage()
        return (
            window_of(fake),
            self.tensors.setdefault(id(fake), len(self.tensors)),
            self.memory.setdefault(storage._cdata, len(self.memory)),
            comparable(storage.nbytes()),
            fake.requires_grad,
            has_readable_history(fake) and fake.is_leaf,
            fake.is_inference(),
        )
