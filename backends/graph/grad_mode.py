"""Grad mode at the ends of a captured graph with gradients: compilers expect that it is on there.

A graph after a break inside `with torch.no_grad()` begins by switching grad mode on; a graph before
such a break ends by switching it off. In: such a graph. Out: the graph without these nodes, and a
callable that switches instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import takewhile
from typing import Any

import torch
import torch.fx

from ...factory_call import record_factory
from .mode_switches import GRAD_MODE
from .node_targets import name_of


def is_switch(node: torch.fx.Node) -> bool:
    return name_of(node) == GRAD_MODE


def mode_behind(nodes: Iterable[torch.fx.Node], before: bool) -> bool:
    """Grad mode after these nodes."""
    for node in nodes:
        if is_switch(node):
            before = bool(node.args[0])
    return before


@contextmanager
def grad_mode_kept() -> Iterator[None]:
    """Restores grad mode at the end, wherever a run of a graph stopped."""
    before = torch.is_grad_enabled()
    try:
        yield
    finally:
        torch._C._set_grad_enabled(before)


def is_on_at_both_ends(gm: torch.fx.GraphModule) -> bool:
    return torch.is_grad_enabled() and mode_behind(gm.graph.nodes, True)


def without_switches_at_the_ends(
    gm: torch.fx.GraphModule,
) -> tuple[torch.fx.GraphModule, bool] | None:
    """A copy of the graph without the first and last switches of grad mode, and the mode after the
    last one; None if grad mode is off after the first or before the last ones."""
    calls = [node for node in gm.graph.nodes if node.op.startswith("call_")]
    first = list(takewhile(is_switch, calls))
    last = list(takewhile(is_switch, reversed(calls[len(first) :])))
    inner = calls[len(first) : len(calls) - len(last)]
    if not mode_behind(first, torch.is_grad_enabled()) or not mode_behind(inner, True):
        return None
    graph = torch.fx.Graph()
    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    graph.output(graph.graph_copy(gm.graph, copies))
    for node in (*first, *last):
        graph.erase_node(copies[node])
    made = torch.fx.GraphModule({}, graph, class_name="CapturedGraph")
    made.meta.update(gm.meta)
    return made, mode_behind(reversed(last), True)


def run_with_grad_mode(run: Callable[..., Any], behind: bool) -> Callable[..., Any]:
    """Runs a graph with grad mode on, then sets the mode that should follow."""

    def call(*args: Any) -> Any:
        torch._C._set_grad_enabled(True)
        results = run(*args)
        torch._C._set_grad_enabled(behind)
        return results

    return record_factory(call, run_with_grad_mode, run, behind)
