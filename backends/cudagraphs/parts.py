"""Records a graph with gradients: its forward and its backward graph, each separately.

Tensors that the forward graph saves for the backward graph stay in the recorded memory, and other
forward passes run unrecorded while a backward pass may still use them. So do tensors that one
subgraph of a graph passes to another, and the gradients that come back.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
import torch.fx

from ...events import Reporter
from ..autograd.graph_parts import GraphPart, compile_forward_and_backward
from ..registry import Backend
from .graphed import GraphedCallable, RecordingRequest
from .recordable import check_recordable
from .sizes import device_of, varying_inputs


def recorded_parts(
    gm: torch.fx.GraphModule,
    example_inputs: list[Any],
    inner: Backend | None,
    asked: dict[str, Any],
    report: Reporter,
    require: bool,
) -> Callable[..., Any]:
    """The forward and backward graphs, compiled by a backend that takes ATen graphs (or
    uncompiled), and recorded."""
    around = GraphRecorder(report, require)

    def compile_part(part: GraphPart) -> Callable[..., Any]:
        return around(
            part,
            part.module().forward
            if inner is None
            else inner.function(part.module(), part.examples, **asked),
        )

    return compile_forward_and_backward(
        gm, example_inputs, compile_part, random_like_eager=inner is None, keep_writes=inner is None
    )


class GraphRecorder:
    """Records the parts of one graph or its subgraphs. Called with each part and its compiled form,
    the forward part first."""

    def __init__(self, report: Reporter, require: bool) -> None:
        self.report, self.require = report, require
        self.forward: dict[torch.fx.GraphModule, GraphedCallable] = {}
        self.graph: weakref.WeakSet[GraphedCallable] = weakref.WeakSet()

    def __call__(self, part: GraphPart, run: Callable[..., Any]) -> Callable[..., Any]:
        """The compiled part, with its work to be recorded; `run` itself where it cannot be. A
        backward part is recorded only if its forward part is."""
        gm, forward = part.gm, self.forward.get(part.captured)
        if (part.backward and forward is None) or not check_recordable(
            gm, self.report, self.require
        ):
            return run
        saved = frozenset[int]()
        if part.results is not None and not part.backward:
            outputs: Any = gm.graph.output_node().args[0]
            saved = frozenset(range(part.results, len(outputs)))
        work = RecordingRequest(
            run,
            device_of(gm),
            written_by_copies(gm),
            saved,
            part.passed,
            varying_inputs(gm),
            forward if part.backward else None,
            self.graph,
        )
        made = GraphedCallable(work, self.report, self.require)
        self.graph.add(made)
        if forward is None:
            self.forward[part.captured] = made
        else:
            forward.note_backward(made)
        return made


def written_by_copies(gm: torch.fx.GraphModule) -> frozenset[int]:
    """Positions of the inputs that a functional graph writes at its end."""
    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    targets = {
        node.args[0] for node in gm.graph.nodes if node.target is torch.ops.aten.copy_.default
    }
    return frozenset(index for index, node in enumerate(placeholders) if node in targets)
