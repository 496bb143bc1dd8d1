"""`cudagraphs`: torch's own kernels, recorded; and `over`, which records another backend's code."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.fx

from ...events import UNREPORTED, Reporter
from ..graph.gradient_history import wants_gradients
from ..registry import GRAPHED, Backend, captured_graph_function, register_backend
from .graphed import GraphedCallable, RecordingRequest
from .recordable import check_recordable
from .sizes import device_of, varying_inputs


def no_device() -> str:
    return "" if torch.cuda.is_available() else "there is no CUDA device"


@register_backend("cudagraphs", missing=no_device)
def cudagraphs(
    gm: torch.fx.GraphModule,
    example_inputs: list[Any],
    *,
    cudagraphs: str = "allow",
    report: Reporter = UNREPORTED,
) -> Callable[..., Any]:
    """Records the graph as it is; with gradients, the forward and the backward graph that
    aot_autograd makes of it.

    cudagraphs: "require" raises RequirementError where it cannot be recorded, "allow" runs it in
    eager and tells explain why.
    """
    require = cudagraphs == "require"
    if not check_recordable(gm, report, require):
        return gm.forward
    if not wants_gradients(gm):
        return record_inference(gm, gm.forward, report, require)
    return load_parts().recorded_parts(gm, example_inputs, None, {}, report, require)


def load_parts() -> Any:
    """The module for graphs with gradients; it loads aot_autograd, which takes a second or more."""
    return importlib.import_module(".parts", __package__)


def with_recording(inner: Backend) -> Backend:
    """The backend `inner`, its kernels recorded. For graphs with gradients, `inner` must take ATen
    graphs or have a parameter `around`: a function of a GraphPart and its compiled form, whose
    result is called instead."""
    parameters = inspect.signature(inner.function).parameters

    def record_graph(
        gm: torch.fx.GraphModule,
        example_inputs: list[Any],
        *,
        mode: str = "default",
        cudagraphs: str = "allow",
        report: Reporter = UNREPORTED,
        **asked: Any,
    ) -> Callable[..., Any]:
        """Compiles a graph with the inner backend and records it, or each of its parts if it needs
        gradients."""
        require = cudagraphs == "require"
        if "report" in parameters:
            asked["report"] = report
        if "mode" in parameters and mode != "default":
            asked["mode"] = mode
        if not check_recordable(gm, report, require):
            return captured_graph_function(inner)(gm, example_inputs, **asked)
        if not wants_gradients(gm):
            return record_inference(
                gm, captured_graph_function(inner)(gm, example_inputs, **asked), report, require
            )
        if inner.wants == "aten":
            return load_parts().recorded_parts(gm, example_inputs, inner, asked, report, require)
        return inner.function(
            gm, example_inputs, around=load_parts().GraphRecorder(report, require), **asked
        )

    by_parts = inner.wants == "aten" or "around" in parameters
    return replace(
        inner,
        name=inner.name + GRAPHED,
        function=record_graph,
        wants="torch",
        training=inner.training and by_parts,
        missing=lambda: no_device() or inner.missing(),
    )


def record_inference(
    gm: torch.fx.GraphModule, run: Callable[..., Any], report: Reporter, require: bool
) -> GraphedCallable:
    """A recorded callable for a captured graph without gradients."""
    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    written = frozenset(
        index for index, node in enumerate(placeholders) if node.meta.get("mutated")
    )
    return GraphedCallable(
        RecordingRequest(run, device_of(gm), written, varying=varying_inputs(gm)), report, require
    )
