"""A captured graph to a callable: finished as a GraphModule, handed to the backend, wrapped so that
a failure leaves torch's modes and random state as they were."""

from __future__ import annotations

import contextlib
import importlib
import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from traceback import clear_frames
from typing import Any, Protocol

import torch
import torch.fx
from torch._C._functorch import TransformType
from torch._guards import TracingContext, tracing
from torch.amp import autocast_mode

from ..errors import BackendError, RequirementError, Rerun, warn_user
from ..events import Input, Reporter
from ..options import Options
from .graph.backward_hooks import between_hooks
from .graph.eager_fallback import PASSED_ON, fall_back_to_eager, warn_of_fallback
from .graph.example_inputs import private_examples
from .graph.grad_mode import grad_mode_kept
from .graph.overlapping_writes import reason as overlap_reason
from .graph.passes.full_masks import drop_full_masks
from .graph.runtime_errors import draws_random_numbers, raises_after_writing, switches_modes
from .graph.separate_inputs import Inseparable, separate
from .graph.supported import reason_to_refuse
from .graph.views_without_writes import reason as view_reason
from .graph.views_without_writes import views_to_make_outside
from .registry import Backend, captured_graph_function, lookup, name_of

REQUIRED = ("cudagraphs", "require")  # an option and its value: better an error than eager
LEAVE = {
    TransformType.Vmap: torch._C._functorch._vmap_decrement_nesting,
    TransformType.Grad: torch._C._functorch._grad_decrement_nesting,
    TransformType.Jvp: torch._C._functorch._jvp_decrement_nesting,
}


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
            grad_mode_kept(),
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
            bool(shared) or raises_after_writing(captured.nodes)
        )  # operators refuse what overlaps in part
        devices = sorted(
            {
                str(node.args[0])
                for node in captured.nodes
                if node.target is autocast_mode._enter_autocast
            }
        )
        return RestoringGraph(compiled, forward, backend.described, random, mutated, keeps, devices)
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


_warned: set[str] = set()


def warn_once(text: str) -> None:
    if text not in _warned:
        _warned.add(text)
        warn_user(text, stacklevel=2)


class Autocasts:
    """What autocast does on some devices."""

    def __init__(self, devices: Sequence[str]) -> None:
        self.on = [
            (device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device))
            for device in devices
        ]
        self.cached, self.depth = torch.is_autocast_cache_enabled(), self.depth_now()

    @staticmethod
    def depth_now() -> int:
        torch.autocast_increment_nesting()
        return torch.autocast_decrement_nesting()

    def restore(self) -> None:
        for device, enabled, dtype in self.on:
            torch.set_autocast_enabled(device, enabled)
            torch.set_autocast_dtype(device, dtype)
        torch.set_autocast_cache_enabled(self.cached)
        for _ in range(self.depth_now() - self.depth):
            if torch.autocast_decrement_nesting() == 0:
                torch.clear_autocast_cache()


def leave_transforms(level: int) -> None:
    """Leaves the levels of torch.func above one; forward derivatives, too, where the graph has
    switched them on."""
    while (torch._C._functorch.maybe_current_level() or 0) > level:
        kind = torch._C._functorch.peek_interpreter_stack().key()
        if kind == TransformType.Jvp:
            torch._C._set_fwd_grad_enabled(not torch.is_inference_mode_enabled())
            with contextlib.suppress(
                RuntimeError
            ):  # only the outermost of such levels has one of these open
                torch._C._exit_dual_level(level=0)
        LEAVE[kind]()


class RestoringGraph:
    """Runs a graph; when it raises, grad mode, autocast on `devices`, the generators and inputs
    that it writes into are put back. Then the captured graph runs, from now on, or, where it raises
    too, Rerun says that the frame can start over. Inputs are kept where an operator behind a write
    may raise; for failures that nobody can foresee (no memory) it raises what it got when something
    was written already."""

    def __init__(
        self, compiled: Callable[..., Any], forward: Callable[..., Any], backend: str, random: bool, mutated: Sequence[int], keeps: bool,
        devices: Iterable[str],
    ) -> None:  # fmt: skip
        self.compiled, self.forward, self.backend = compiled, forward, backend
        self.random, self.mutated, self.keeps, self.devices = (
            random,
            tuple(mutated),
            keeps,
            tuple(devices),
        )

    def __call__(self, *args: Any) -> Any:
        grad, level = torch.is_grad_enabled(), torch._C._functorch.maybe_current_level() or 0
        autocasts = Autocasts(self.devices) if self.devices else None
        state = torch.get_rng_state() if self.random else None
        cuda = torch.cuda.get_rng_state() if self.random and torch.cuda.is_initialized() else None
        written = [args[position] for position in self.mutated]
        versions = [version(tensor) for tensor in written]
        kept = [tensor.detach().clone() for tensor in written] if self.keeps else None
        try:
            return self.compiled(*args)
        except PASSED_ON:
            raise
        except Exception as error:
            clear_frames(
                error.__traceback__
            )  # inference mode ends with the object that entered it, which may not live on there
            torch._C._set_grad_enabled(grad)
            if autocasts is not None:
                autocasts.restore()
            leave_transforms(level)
            if state is not None:
                torch.set_rng_state(state)
            if cuda is not None:
                torch.cuda.set_rng_state(cuda)
            if kept is not None:  # not all writes are counted
                with torch.no_grad():
                    for tensor, before in zip(written, kept, strict=True):
                        if not torch.equal(tensor, before):
                            first_of_repeats(tensor.detach()).copy_(
                                first_of_repeats(before, tensor)
                            )
            elif versions != [version(tensor) for tensor in written]:
                raise
            return self.instead(error, args)

    def instead(self, error: Exception, args: tuple[Any, ...]) -> Any:
        """What the captured graph returns, everything being as it was before the compiled one
        raised."""
        if self.compiled == self.forward or isinstance(error, torch.OutOfMemoryError):
            raise Rerun from error
        result = RestoringGraph(
            self.forward,
            self.forward,
            self.backend,
            self.random,
            self.mutated,
            self.keeps,
            self.devices,
        )(*args)
        self.compiled = self.forward
        warn_of_fallback(self.backend, error)
        return result


def first_of_repeats(tensor: torch.Tensor, like: torch.Tensor | None = None) -> torch.Tensor:
    """The first of the elements along dimensions that `like`, or the tensor itself, is expanded
    along: torch copies into no others."""
    strides = (tensor if like is None else like).stride() if tensor.layout is torch.strided else ()
    return (
        tensor[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in strides)]
        if 0 in strides
        else tensor
    )


def version(tensor: torch.Tensor) -> int:
    """How often a tensor was written to; a new object, equal to none, where torch does not count."""
    return object() if tensor.is_inference() else tensor._version  # type: ignore[return-value]
