"""What a captured graph becomes with gradients, made when first asked for and shared by the backends that are tried on it."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch.fx
from torch._subclasses.fake_tensor import FakeTensor

from ..passes.by_operator import Refused
from .divide import Divided, divide, module
from .joint import Joint
from .operators import Differentiables

KEY = "gradients"  # in the meta of a graph module and of its copies

Decompositions = Mapping[Any, Callable[..., Any]]


class Shared:
    """By decompositions, the graph's two parts; None where they cannot be had operator by operator."""

    def __init__(self) -> None:
        self.made: dict[Any, Divided | None] = {}
        self.lent = False

    def divided(self, gm: torch.fx.GraphModule, decompositions: Decompositions) -> Divided | None:
        """The parts of a graph, whose nodes are the caller's to change."""
        key = frozenset(decompositions)
        if key not in self.made:
            self.made[key] = traced(gm, decompositions)
        divided = self.made[key]
        if divided is None or not self.lent:
            return divided
        return replace(divided, forward=again(divided.forward), backward=again(divided.backward))

    def clear(self) -> None:
        self.made.clear()


def share(gm: torch.fx.GraphModule, copy: torch.fx.GraphModule) -> None:
    """What is made of one of two equal graphs is the other's, too."""
    shared = gm.meta.setdefault(KEY, Shared())
    shared.lent = True
    copy.meta[KEY] = shared


def forget(gm: torch.fx.GraphModule) -> None:
    """Drops what was made of a graph: nobody will ask for it."""
    if KEY in gm.meta:
        gm.meta[KEY].clear()


def divided(gm: torch.fx.GraphModule, decompositions: Decompositions) -> Divided | None:
    """A captured graph's parts; None where it takes aot_autograd to have them."""
    shared: Shared = gm.meta.get(KEY) or Shared()
    return shared.divided(gm, decompositions)


def traced(gm: torch.fx.GraphModule, decompositions: Decompositions) -> Divided | None:
    fakes = (node.meta.get("example_value") for node in gm.graph.nodes)
    mode = next((fake.fake_mode for fake in fakes if isinstance(fake, FakeTensor)), None)
    if mode is None:
        return None
    try:
        operators = Differentiables(gm, mode, decompositions)
        return divide(Joint(gm.graph, operators))
    except Refused:
        return None


def again(part: torch.fx.GraphModule) -> torch.fx.GraphModule:
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(part.graph, {}))
    return module(graph, type(part).__name__)
