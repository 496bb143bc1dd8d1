"""`cudagraphs`: torch's own kernels, recorded; and `over`, which puts recording over another backend's code."""
from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.fx

from ...errors import RequirementError
from ..fitness import wants_gradients
from ..registry import GRAPHED, Backend, register_backend
from ..training import Part, by_parts
from .graphed import Graphed, Work
from .unsafe import fake_of, unsafe

Report = Callable[[str], Any]
Around = Callable[[Part, Callable[..., Any]], Callable[..., Any]]


def unreported(text: str) -> None:
    """For a graph that nobody explains."""


def no_device() -> str:
    return "" if torch.cuda.is_available() else "there is no CUDA device"


@register_backend("cudagraphs", missing=no_device)
def cudagraphs(
    gm: torch.fx.GraphModule, example_inputs: list[Any], *, cudagraphs: str = "allow", report: Report = unreported
) -> Callable[..., Any]:
    """Records the graph as it is; with gradients, the forward and the backward graph that aot_autograd makes of it.

    cudagraphs: "require" raises RequirementError where it cannot be recorded, "allow" runs it in eager and tells explain why.
    """
    require = cudagraphs == "require"
    if not recordable(gm, report, require):
        return gm.forward
    if not wants_gradients(gm):
        return graphed(gm, gm.forward, report, require)
    around = Recorder(report, require)
    return by_parts(gm, example_inputs, lambda part: around(part, part.gm.forward), random_like_eager=True, keep_writes=True)


def over(inner: Backend) -> Backend:
    """The backend `inner`, its work recorded. With gradients that takes one that wants ATen graphs, or that has a parameter
    `around`: a function of a Part and the callable made of it, whose result is to be called instead."""
    parameters = inspect.signature(inner.function).parameters
    parts = inner.wants == "aten" or "around" in parameters

    def recorded(
        gm: torch.fx.GraphModule, example_inputs: list[Any], *, cudagraphs: str = "allow", report: Report = unreported, **asked: Any
    ) -> Callable[..., Any]:
        require = cudagraphs == "require"
        if "report" in parameters:
            asked["report"] = report
        around = Recorder(report, require) if recordable(gm, report, require) else None
        if inner.wants == "aten":

            def compile_part(part: Part) -> Callable[..., Any]:
                made = inner.function(part.gm, part.examples, **asked)
                return made if around is None else around(part, made)

            return by_parts(gm, example_inputs, compile_part, random_like_eager=False)
        if around is not None and "around" in parameters:
            return inner.function(gm, example_inputs, around=around, **asked)
        made = inner.function(gm, example_inputs, **asked)
        return made if around is None or wants_gradients(gm) else graphed(gm, made, report, require)

    return replace(
        inner, name=inner.name + GRAPHED, function=recorded, training=inner.training and parts, wants="torch",
        missing=lambda: no_device() or inner.missing(),
    )  # fmt: skip


def recordable(gm: torch.fx.GraphModule, report: Report, require: bool) -> bool:
    """Whether nothing speaks against recording a graph; tells why not. Raises RequirementError where it must be."""
    reason = unsafe(gm)
    if reason:
        report(f"CUDA graphs: not recorded: {reason}")
        if require:
            raise RequirementError(f"CUDA graphs are required, but this graph cannot be recorded: {reason}")
    return not reason


def graphed(gm: torch.fx.GraphModule, run: Callable[..., Any], report: Report, require: bool) -> Graphed:
    """A callable made of a captured graph without gradients, recorded."""
    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    written = frozenset(index for index, node in enumerate(placeholders) if node.meta.get("mutated"))
    return Graphed(Work(run, device_of(gm), written, varies=varies(gm)), report, require)


class Recorder:
    """Records the parts of one graph: called with each part and the callable made of it, the forward one first."""

    def __init__(self, report: Report, require: bool) -> None:
        self.report, self.require = report, require
        self.forward: Graphed | None = None

    def __call__(self, part: Part, run: Callable[..., Any]) -> Callable[..., Any]:
        gm = part.gm
        if (part.backward and self.forward is None) or not recordable(gm, self.report, self.require):
            return run
        lent = frozenset[int]()
        if part.results is not None and not part.backward:
            outputs: Any = gm.graph.output_node().args[0]
            lent = frozenset(range(part.results, len(outputs)))
        work = Work(run, device_of(gm), written_by_copies(gm), lent, varies(gm), self.forward if part.backward else None)
        made = Graphed(work, self.report, self.require)
        if not part.backward:
            self.forward = made
        return made


def written_by_copies(gm: torch.fx.GraphModule) -> frozenset[int]:
    """Positions of inputs of a functional graph that it ends by writing into."""
    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    targets = {node.args[0] for node in gm.graph.nodes if node.target is torch.ops.aten.copy_.default}
    return frozenset(index for index, node in enumerate(placeholders) if node in targets)


def device_of(gm: torch.fx.GraphModule) -> int:
    """The number of the CUDA device that a graph's tensors lie on."""
    fakes = [fake for node in gm.graph.nodes if isinstance(fake := fake_of(node), torch.Tensor) and fake.device.type == "cuda"]
    return next((fake.device.index or 0 for fake in fakes), 0)


def varies(gm: torch.fx.GraphModule) -> bool:
    """Whether sizes of inputs are symbols."""
    fakes = [fake_of(node) for node in gm.graph.nodes if node.op == "placeholder"]
    numbers = (number for fake in fakes if isinstance(fake, torch.Tensor) for number in (*fake.shape, *fake.stride()))
    return any(not isinstance(fake, torch.Tensor) for fake in fakes) or any(not isinstance(number, int) for number in numbers)
