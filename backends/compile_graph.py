"""Compiles a captured graph: finishes it as a GraphModule, passes it to the backend, and wraps the
result so that a failure restores torch's modes and random state."""

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
from ..records import record
from .graph.collectives import NamedCollectives, has_collectives
from .graph.detached_results import find_detached_results
from .graph.eager_fallback import fall_back_to_eager
from .graph.example_inputs import private_examples
from .graph.freed_results import find_freed_results
from .graph.graph_structure import SHARED
from .graph.hidden_writes import writes_detached
from .graph.mode_switches import switches_modes
from .graph.node_targets import name_of as name_of_node
from .graph.overlapping_writes import reason as overlap_reason
from .graph.passes.full_masks import drop_full_masks
from .graph.passes.late_waits import delay_waits
from .graph.protected_results import find_protected_results
from .graph.random_draws import draws_random_numbers
from .graph.runtime_errors import raises_after_writing
from .graph.separate_inputs import Inseparable, separate
from .graph.supported import reason_to_refuse
from .graph.version_counters import keep_version_counters
from .graph.views_of_results import views_of_results
from .graph.views_without_writes import reason as view_reason
from .graph.views_without_writes import views_to_make_outside
from .registry import Backend, captured_graph_function, lookup, name_of
from .restoring_graph import RestorePlan, RestoringGraph, preserve_modes
from .subgraphs.gradient_buckets import bucket_bytes, in_buckets
from .subgraphs.uncompiled_nodes import Build, compile_around

# operators whose results may be outside the memory of their inputs
REACH_BEYOND_INPUTS = ("as_strided", "as_strided_", "set_")
# an option and its value, which the user asked to be an error rather than eager
REQUIRED = ("cudagraphs", "require")


class CapturedGraph(Protocol):
    """A graph as captured."""

    graph: torch.fx.Graph
    nodes: list[torch.fx.Node]
    inputs: list[Any]
    fake_mode: Any


@record
class GraphRequest:
    """A graph to compile. inputs: the placeholders in use. expected: nodes that must be true at run
    time; if one is not, `on_failure` is called with its position, and Rerun is raised. seed: for
    the generators, set before the graph draws random numbers. overlapping: names of written inputs,
    each with the name of an input that shares memory with it. without_torch_function: the graph
    runs while torch calls no `__torch_function__` of a class."""

    captured: CapturedGraph
    inputs: Sequence[torch.fx.Node]
    outputs: Sequence[torch.fx.Node]
    options: Options
    report: Reporter
    expected: Sequence[torch.fx.Node] = ()
    on_failure: Callable[[int], None] | None = None
    seed: int | None = None
    overlapping: Sequence[tuple[str, str]] = ()
    without_torch_function: bool = False


def compile_graph(request: GraphRequest) -> Callable[..., Any]:
    """Compiles a graph. Raises BackendError, or RequirementError."""
    nodes = request.captured.nodes
    freed = find_freed_results(nodes, request.outputs)
    related = views_of_results(nodes, freed.kept)
    detached = find_detached_results(nodes, freed.kept if related is None else related.results)
    views = views_to_make_outside(nodes, detached.kept)
    results = detached.kept if views is None else views.results
    protected = find_protected_results(results)
    gm = finish_graph(request, results)
    shared = overlap_reason(nodes, request.overlapping) or view_reason(results)
    backend, compiled, shared = run_backend(request, gm, shared)
    uses_backend = compiled != gm.forward
    if uses_backend:
        compiled = keep_version_counters(compiled, nodes, request.inputs)
    if uses_backend and request.options.verify:
        compiled = verify_first_calls(request, gm, compiled)

    def wrap(run: Callable[..., Any]) -> Callable[..., Any]:
        run = protected.wrap(wrap_graph(run, len(results), request))
        run = run if views is None else views.wrap(run, request.inputs)
        run = detached.wrap(run)
        run = run if related is None else related.wrap(run, request.inputs)
        return freed.wrap(run)

    forward = wrap(gm.forward)
    compiled = wrap(compiled) if uses_backend else forward
    call = with_fallback(request, compiled, forward, backend.description, bool(shared))
    if request.without_torch_function:
        call = GraphWithoutTorchFunction(call)
    if has_collectives(nodes):
        return NamedCollectives(call, f"{request.report.function} from {request.report.where}")
    return call


def finish_graph(request: GraphRequest, results: Sequence[torch.fx.Node]) -> torch.fx.GraphModule:
    """The captured graph as a GraphModule, without unused inputs."""
    graph = request.captured.graph
    for item in request.captured.inputs:
        item.value.node.meta["mutated"] = item.is_mutated
        item.value.node.meta["path"] = item.source.name
    for item in unused_inputs(request):
        graph.erase_node(item.value.node)
    graph.output((*results, *request.expected))
    drop_full_masks(graph)
    delay_waits(graph)
    return torch.fx.GraphModule({}, graph, class_name="CapturedGraph")


def used_inputs(request: GraphRequest) -> list[Any]:
    used = set(request.inputs)
    return [item for item in request.captured.inputs if item.value.node in used]


def unused_inputs(request: GraphRequest) -> list[Any]:
    used = set(request.inputs)
    return [item for item in request.captured.inputs if item.value.node not in used]


def run_backend(
    request: GraphRequest, gm: torch.fx.GraphModule, shared: str
) -> tuple[Backend, Callable[..., Any], str]:
    """The backend, its result for the graph, and the shared memory. `shared`: as for call_backend.
    Raises BackendError, or RequirementError."""
    options, report = request.options, request.report
    examples = {item.value.node: item.example for item in used_inputs(request)}
    given = [examples[node] for node in request.inputs]
    origin = ""
    try:
        with report.phase("imports"):
            backend = lookup(options.backend)
        origin = backend.origin
        report.send_backend_called(backend.name, tuple(map(as_record, used_inputs(request))))
        # a backend may fail in the middle of a trace
        with (
            preserve_modes(autocast_devices(request)),
            tracing(TracingContext(request.captured.fake_mode)),
        ):
            if not shared and not backend.overlaps:
                try:
                    gm.meta["inputs"] = given  # as they are, for a backend that tries the graph
                    given = separate(gm, given)
                except Inseparable as error:
                    shared = f"inputs share a storage that is written, and {error}"
            gm.meta[SHARED] = {}
            build: Build = partial(call_backend, backend, options, report, shared)
            size = bucket_bytes()
            build = in_buckets(build, size) if size else build
            compiled = compile_around(gm, given, backend, build, report)
    except RequirementError:
        raise
    except Exception as error:
        raise BackendError(name_of(options.backend), error, origin) from error
    finally:
        gm.meta.pop("inputs", None)
        gm.meta.pop(SHARED, None)
    return backend, compiled, shared


def verify_first_calls(
    request: GraphRequest, gm: torch.fx.GraphModule, compiled: Callable[..., Any]
) -> Callable[..., Any]:
    """The compiled graph, with its first calls verified."""
    # loaded only where it is asked for
    module = importlib.import_module(".autotune.verify", __package__)
    options = request.options
    verified: Callable[..., Any] = module.verify(
        compiled, gm, options.verify, options.backend, request.report
    )
    return verified


def with_fallback(
    request: GraphRequest,
    compiled: Callable[..., Any],
    forward: Callable[..., Any],
    backend: str,
    shares_memory: bool,
) -> Callable[..., Any]:
    """A graph that is replaced by `forward`, the captured one, if it fails where that does not.
    Modes, generators and inputs are then restored first. A graph with collectives is not run a
    second time."""
    nodes = request.captured.nodes
    collective = has_collectives(nodes)
    if collective:
        forward = compiled
    random = request.seed is not None or draws_random_numbers(nodes)
    inputs = list(enumerate(request.inputs))
    mutated = tuple(position for position, node in inputs if node.meta["mutated"])
    generators = tuple(
        position
        for position, node in inputs
        if isinstance(node.meta["example_value"], torch.Generator)
    )
    if not (collective or random or mutated or generators or any(map(switches_modes, nodes))):
        if compiled is forward:
            return compiled
        return fall_back_to_eager(compiled, forward, backend)
    saves_inputs = bool(mutated) and (
        bool(request.expected)
        or shares_memory  # operators refuse inputs that overlap in part
        or raises_after_writing(nodes)
        or writes_detached(nodes)
    )
    whole_storages = any(name_of_node(node) in REACH_BEYOND_INPUTS for node in nodes)
    devices = autocast_devices(request)
    plan = RestorePlan(random, generators, mutated, saves_inputs, whole_storages, devices)
    return RestoringGraph(compiled, forward, backend, plan)


def autocast_devices(request: GraphRequest) -> tuple[str, ...]:
    """The types of devices for which the graph enters autocast."""
    enter = autocast_mode._enter_autocast
    entered = (node for node in request.captured.nodes if node.target is enter)
    return tuple(sorted({str(node.args[0]) for node in entered}))


def wrap_graph(run: Callable[..., Any], results: int, request: GraphRequest) -> Callable[..., Any]:
    """Adds the code that runs before and after a graph."""
    if request.seed is not None:
        run = SeededGraph(run, request.seed)
    if request.on_failure is not None and request.expected:
        run = ExpectingGraph(run, results, request.on_failure)
    return run


class SeededGraph:
    """Seeds torch's generators, then runs a graph."""

    def __init__(self, compiled: Callable[..., Any], seed: int) -> None:
        self.compiled, self.seed = compiled, seed

    def __call__(self, *args: Any) -> Any:
        torch.manual_seed(self.seed)
        return self.compiled(*args)


class GraphWithoutTorchFunction:
    """Runs a graph while torch calls no `__torch_function__` of a class."""

    def __init__(self, compiled: Callable[..., Any]) -> None:
        self.compiled = compiled

    def __call__(self, *args: Any) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            return self.compiled(*args)


class ExpectingGraph:
    """Runs a graph and returns its first outputs. If one of the others is not true, it raises
    Rerun before anything has changed."""

    def __init__(
        self, compiled: Callable[..., Any], outputs: int, on_failure: Callable[[int], None]
    ) -> None:
        self.compiled, self.outputs, self.on_failure = compiled, outputs, on_failure

    def __call__(self, *args: Any) -> Any:
        results = self.compiled(*args)
        for position, fact in enumerate(results[self.outputs :]):
            if not fact:
                self.on_failure(position)
                raise Rerun
        return results[: self.outputs]


def as_record(item: Any) -> Input:
    """An input of a graph as a record."""
    example, name = item.example, item.source.name
    if isinstance(example, torch.Generator):
        return Input(name, "Generator", (), str(example.device))
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
    """A backend's result for a graph; the captured graph, with a warning, where the backend does
    not support it. `shared`: memory that the graph writes through one tensor and reads through
    another, "" for none; most backends do not get such graphs (without a warning)."""
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
                f"CUDA graphs are required, but backend '{backend.description}' {reason}"
            )
        report(f"runs in eager: backend '{backend.name}' {reason}")
        warn_once(
            f"backend '{backend.description}' {reason}: graphs that it does not support "
            "run in eager"
        )
        return gm.forward
    compiled = captured_graph_function(backend)(
        gm, private_examples(backend, gm, examples), **backend_arguments(backend, options, report)
    )
    if not callable(compiled):
        raise TypeError(f"it returned a {type(compiled).__name__}, not a callable")
    return compiled


def backend_arguments(backend: Backend, options: Options, report: Reporter) -> dict[str, Any]:
    """compile()'s mode and options and a reporter, for a backend that takes them."""
    parameters = inspect.signature(backend.function).parameters
    asked = dict(options.backend_options)
    extra = {"options": asked} if asked and "options" in parameters else asked
    if "report" in parameters:
        extra = {"report": report, **extra}
    if "mode" in parameters and options.mode != "default":
        extra = {"mode": options.mode, **extra}
    return extra
