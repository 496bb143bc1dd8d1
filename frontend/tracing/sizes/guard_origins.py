"""Guards on sizes, each with its origin: a line of the program, or a backend at an operator of the
graph."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch.fx

from ....backends.graph.node_targets import name_of
from ....records import record

RUNS_NODE = torch.fx.Interpreter.run_node.__code__


@record
class GuardOrigin:
    """The origin of a guard. line: file:line of the program. operator: the node that a backend was
    tracing, "" without a backend."""

    line: str
    operator: str = ""


class RecordedGuards(list[Any]):
    """Torch's list of guards. `origins`: the origin of each guard; `origin` returns the current
    one."""

    def __init__(self, origin: Callable[[], GuardOrigin]) -> None:
        super().__init__()
        self.origin = origin
        self.origins: list[GuardOrigin] = []

    def append(self, guard: Any) -> None:
        self.origins.append(self.origin())
        super().append(guard)


def backend_as_origin() -> GuardOrigin:
    """The origin while a backend works: the captured node that runs on fake tensors, if there is
    one."""
    node = node_being_run()
    if node is None:
        return GuardOrigin("", "the whole graph")
    lines = node.meta.get("lines", ())
    return GuardOrigin(lines[0] if lines else "", name_of(node))


def node_being_run() -> torch.fx.Node | None:
    """The current node of the outermost fx interpreter of this thread."""
    node, frame = None, sys._getframe(1)
    while frame is not None:
        if frame.f_code is RUNS_NODE:
            node = frame.f_locals["n"]
        frame = frame.f_back  # type: ignore[assignment]
    return node
