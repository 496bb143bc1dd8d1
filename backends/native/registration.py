"""Registers the backend `native`; the compiler itself is imported with the first graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch.fx

from ...events import UNREPORTED, Reporter
from ..registry import import_shipped, register_backend

if TYPE_CHECKING:
    from .backend import Around


@register_backend("native", attention_kernels=True)
def native(
    gm: torch.fx.GraphModule,
    example_inputs: list[Any],
    *,
    mode: str = "default",
    around: Around | None = None,
    report: Reporter = UNREPORTED,
    freezing: bool = False,
    layout_optimization: bool = True,
) -> Callable[..., Any]:
    """Compiles a captured graph; operators without a kernel of ours run by torch.

    mode: with max-autotune, kernels for the GPU are tuned by measuring. around: gets each part of a
    graph with gradients and its compiled form; what it returns is called instead. freezing: for
    graphs without gradients; values that depend only on parameters are computed once, batch norms
    are folded into the weights before them, and both are repeated when a parameter has changed.
    layout_optimization: convolutions run channels-last where that should pay.
    """
    with report.phase("imports"):
        compiler = import_shipped("native", "native.backend")
    if compiler is None:  # switched off: this torch lacks what it needs
        return gm.forward
    tune = mode.startswith("max-autotune")
    settings = compiler.CompileSettings(around, report, freezing, layout_optimization, tune)
    compiled: Callable[..., Any] = compiler.compile_or_run_captured(gm, example_inputs, settings)
    return compiled
