"""A captured graph to a callable: finished as a GraphModule, handed to the backend, wrapped so that
a failure leaves torch's modes and random state as they were."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import torch
import torch.fx
from torch._guards import TracingContext, tracing
from torch.amp import autocast_mode

from ..errors import BackendError, RequirementError, Rerun, warn_once
from ..events import Input, Reporter
from ..options import Options
from .graph.backward_hooks import between_hooks
from .graph.eager_fallback import fall_back_to_eager
from .graph.example_inputs import private_examples
from .graph.hidden_writes import writes_detached
from .graph.node_targets import name_of as name_of_node
from .graph.overlapping_writes import reason as overlap_reason
from .graph.passes.full_masks import drop_full_masks
from .graph.runtime_errors import draws_random_numbers, raises_after_writing, switches_modes
from .graph.separate_inputs import Inseparable, separate
from .graph.supported import reason_to_refuse
from .graph.views_without_writes import reason as view_reason
from .graph.views_without_writes import views_to_make_outside
from .registry import Backend, captured_graph_function, lookup, name_of
from .restoring_graph import RestoringGraph, modes_kept

REACHES = (
    "as_strided",
    "as_strided_",
    "set_",
)  # their results may lie outside of what they are given
REQUIRED = ("cudagraphs", "require")  # an option and its value: better an error than eager


class CapturedGraph(Protocol):
    """What a capture hands over."""

    graph: torch.fx.Graph
    nodes: list[torch.fx.Node]
    inputs: list[Any]
    fake_mode: Any


def compile_graph(
    captured: CapturedGraph, inputs: Sequence[torch.fx.Node], outputs: Sequence[torch.fx.Node], options: Options, report: Reporter,
    expected: Sequence[torch.fx.Node] = (), in_vain: Callable[[int], None] | None = None, seed: int | None = None,
    overlapping: Sequence[tuple[str, str]] = (),
) -> Callable[..., Any]:  # fmt: skip
    """Compiles a graph of which `inputs` are the placeholders in use. `expected`: nodes that have
    to be true, or `in_vain` is told which is not and Rerun is raised. `seed`: of the generators,
    before it draws from them. `overlapping`: names of inputs that it writes into, each with one
    that shares memory with it. Raises BackendError, or RequirementError."""
    graph = captured.graph
    examples = {item.value.node: item.example for item in captured.inputs}
    for item in captured.inputs:
        item.value.node.meta["mutated"] = item.mutated
        item.value.node.meta["path"] = item.source.name
    used = set(inputs)
    for node in examples:
        if node not in used:
            graph.erase_node(node)
    views = views_to_make_outside(captured.nodes, outputs)
    results = outputs if views is None else views.results
    graph.output((*results, *expected))
    drop_full_masks(graph)
    gm = torch.fx.GraphModule({}, graph, class_name="CapturedGraph")
    shared = overlap_reason(captured.nodes, overlapping) or view_reason(results)
    modes = any(map(switches_modes, captured.nodes))
    random = seed is not None or draws_random_numbers(captured.nodes)
    devices = sorted(
        {
            str(node.args[0])
            for node in captured.nodes
            if node.target is autocast_mode._enter_autocast
        }
    )
    origin = ""
    try:
        with report.phase("imports"):
            backend = lookup(options.backend)
        origin = backend.origin
        report.send_given(
            backend.name,
            tuple(as_record(item) for item in captured.inputs if item.value.node in used),
        )
        with (
            modes_kept(devices),
            tracing(TracingContext(captured.fake_mode)),
        ):  # a backend may give up amid a trace
            given = [examples[node] for node in inputs]
            if not shared and not backend.overlaps:
                try:
                    gm.meta["inputs"] = given  # as they are, for a backend that tries the graph
                    given = separate(gm, given)
                except Inseparable as error:
                    shared = f"inputs share a storage that is written, and {error}"
            compiled = between_hooks(
                gm, given, partial(call_backend, backend, options, report, shared)
            )
    except RequirementError:
        raise
    except Exception as error:
        raise BackendError(name_of(options.backend), error, origin) from error
    finally:
        gm.meta.pop("inputs", None)
    plain = compiled == gm.forward
    if options.verify and not plain:
        module = importlib.import_module(
            ".autotune.verify", __package__
        )  # only those who ask for it load the comparison
        compiled = module.verify(compiled, gm, options.verify, options.backend, report)
    told = in_vain if expected else None

    def wrap(run: Callable[..., Any]) -> Callable[..., Any]:
        outer = wrap_graph(run, len(results), told, seed)
        return outer if views is None else views.around(outer, inputs)

    forward = wrap(gm.forward)
    compiled = forward if plain else wrap(compiled)
    mutated = [position for position, node in enumerate(inputs) if node.meta["mutated"]]
    if modes or random or mutated:
        keeps = bool(mutated) and (
            bool(shared)  # operators refuse what overlaps in part
            or raises_after_writing(captured.nodes)
            or writes_detached(captured.nodes)
        )
        reaches = any(name_of_node(node) in REACHES for node in captured.nodes)
        return RestoringGraph(
            compiled, forward, backend.described, random, mutated, keeps, devices, reaches
        )
    return compiled if plain else fall_back_to_eager(compiled, forward, backend.described)


def wrap_graph(
    run: Callable[..., Any], results: int, in_vain: Callable[[int], None] | None, seed: int | None
) -> Callable[..., Any]:
    """A graph with what comes before and behind it."""
    if seed is not None:
        run = SeededGraph(run, seed)
    if in_vain is not None:
        run = ExpectingGraph(run, results, in_vain)
    return run


class SeededGraph:
    """Seeds torch's generators, then runs a graph."""

    def __init__(self, compiled: Callable[..., Any], seed: int) -> None:
        self.compiled, self.seed = compiled, seed

    def __call__(self, *args: Any) -> Any:
        torch.manual_seed(self.seed)
        return self.compiled(*args)


class ExpectingGraph:
    """Runs a graph and hands on its first outputs; the others have to be true, or nothing has
    happened."""

    def __init__(
        self, compiled: Callable[..., Any], outputs: int, in_vain: Callable[[int], None]
    ) -> None:
        self.compiled, self.outputs, self.in_vain = compiled, outputs, in_vain

    def __call__(self, *args: Any) -> Any:
        results = self.compiled(*args)
        for position, fact in enumerate(results[self.outputs :]):
            if not fact:
                self.in_vain(position)
                raise Rerun
        return results[: self.outputs]


def as_record(item: Any) -> Input:
    """An input of a graph for those who listen."""
    example, name = item.example, item.source.name
    if not isinstance(example, torch.Tensor):
        return Input(
            name, "float" if isinstance(example, float | torch.SymFloat) else "int", (), ""
        )
    return Input(
        name,
        str(example.dtype).removeprefix("torch."),
        tuple(map(str, example.shape)),
        str(example.device),
    )


def call_backend(
    backend: Backend,
    options: Options,
    report: Reporter,
    shared: str,
    gm: torch.fx.GraphModule,
    examples: list[Any],
) -> Callable[..., Any]:
    """What a backend makes of a graph; the graph as it is, with a warning, where the backend says
    that it is not for such graphs. `shared`: says which memory is written and seen in another way,
    too: most backends are not given such a graph, without a warning."""
    if shared and not backend.overlaps:
        if REQUIRED in options.backend_options:
            raise RequirementError(
                f"CUDA graphs are required, but this graph cannot be recorded: {shared}"
            )
        report(f"runs in eager: {shared}")
        return gm.forward
    reason = reason_to_refuse(backend, gm)
    if reason:
        if REQUIRED in options.backend_options:
            raise RequirementError(
                f"CUDA graphs are required, but backend '{backend.described}' {reason}"
            )
        report(f"runs in eager: backend '{backend.name}' {reason}")
        warn_once(f"backend '{backend.described}' {reason}: graphs that it is not for run in eager")
        return gm.forward
    compiled = captured_graph_function(backend)(
        gm, private_examples(backend, gm, examples), **arguments(backend, options, report)
    )
    if not callable(compiled):
        raise TypeError(f"it returned a {type(compiled).__name__}, not a callable")
    return compiled


def arguments(backend: Backend, options: Options, report: Reporter) -> dict[str, Any]:
    """compile()'s mode and options and a reporter, for a backend that takes them."""
    parameters = inspect.signature(backend.function).parameters
    asked = dict(options.backend_options)
    extra = {"options": asked} if asked and "options" in parameters else asked
    if "report" in parameters:
        extra = {"report": report, **extra}
    if "mode" in parameters and options.mode != "default":
        extra = {"mode": options.mode, **extra}
    return extra
