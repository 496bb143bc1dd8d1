"""The grad and autocast modes in which the nodes of a graph run."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile

import torch
import torch.fx
from torch.amp import autocast_mode

from ...records import record
from ..graph.mode_switches import (
    ENTER_AUTOCAST,
    ENTER_VMAP,
    EXIT_AUTOCAST,
    GRAD_MODE,
    switches_modes,
)
from ..graph.node_targets import name_of

Node = torch.fx.Node


class CannotSplit(Exception):
    """The graph cannot be split without changing what autograd does; it runs as captured."""


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
