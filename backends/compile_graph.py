"""A captured graph to a callable: finished as a GraphModule, handed to the backend, wrapped so that a failure leaves
torch's modes and random state as they were."""
from __future__ import annotations

import contextlib
import inspect
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from traceback import clear_frames
from typing import Any, Protocol

import torch
import torch.fx
from torch._C._functorch import TransformType
from torch._guards import TracingContext, tracing
from torch.amp import autocast_mode

from ..errors import BackendError, RequirementError, Rerun
from ..events import Input, Reporter
from ..options import Options
from .backward_hooks import between_hooks
from .deoptimised import PASSED_ON, deoptimising, tell
from .fitness import refusal
from .forbidden_views import Outside, taken_outside
from .passes.full_masks import drop_full_masks
from .registry import Backend, lookup, name_of, whole
from .value_errors import draws_random_numbers, raises_after_writing, switches_modes

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
) -> Callable[..., Any]:  # fmt: skip
    """Compiles a graph of which `inputs` are the placeholders in use. `expected`: nodes that have to be true, or `in_vain` is told which
    is not and Rerun is raised. `seed`: of the generators, before it draws from them. Raises BackendError, or RequirementError."""
    graph = captured.graph
    examples = {item.value.node: item.example for item in captured.inputs}
    for item in captured.inputs:
        item.value.node.meta["mutated"] = item.mutated
        item.value.node.meta["path"] = item.source.name
    used = set(inputs)
    for node in examples:
        if node not in used:
            graph.erase_node(node)
    views = taken_outside(captured.nodes, outputs)
    results = outputs if views is None else views.results
    graph.output((*results, *expected))
    drop_full_masks(graph)
    gm = torch.fx.GraphModule({}, graph, class_name="CapturedGraph")
    modes = any(map(switches_modes, captured.nodes))
    random = seed is not None or draws_random_numbers(captured.nodes)
    origin = ""
    try:
        with report.phase("imports"):
            backend = lookup(options.backend)
        origin = backend.origin
        report.given(backend.name, tuple(as_record(item) for item in captured.inputs if item.value.node in used))
        with tracing(TracingContext(captured.fake_mode)):
            build = partial(call_backend, backend, options, report)
            compiled = between_hooks(gm, [examples[node] for node in inputs], build)
    except RequirementError:
        raise
    except Exception as error:
        raise BackendError(name_of(options.backend), error, origin) from error
    plain = compiled == gm.forward
    told = in_vain if expected else None
    forward = surrounded(gm.forward, len(results), told, seed, views)
    compiled = forward if plain else surrounded(compiled, len(results), told, seed, views)
    mutated = [position for position, node in enumerate(inputs) if node.meta["mutated"]]
    if modes or random or mutated:
        keeps = bool(mutated) and raises_after_writing(captured.nodes)
        devices = sorted({str(node.args[0]) for node in captured.nodes if node.target is autocast_mode._enter_autocast})
        return Restoring(compiled, forward, backend.described, random, mutated, keeps, devices)
    return compiled if plain else deoptimising(compiled, forward, backend.described)


def surrounded(
    run: Callable[..., Any], results: int, in_vain: Callable[[int], None] | None, seed: int | None, views: Outside | None
) -> Callable[..., Any]:
    """A graph with what comes before and behind it."""
    if seed is not None:
        run = Seeded(run, seed)
    if in_vain is not None:
        run = Expecting(run, results, in_vain)
    return run if views is None else views.around(run)


class Seeded:
    """Seeds torch's generators, then runs a graph."""

    def __init__(self, compiled: Callable[..., Any], seed: int) -> None:
        self.compiled, self.seed = compiled, seed

    def __call__(self, *args: Any) -> Any:
        torch.manual_seed(self.seed)
        return self.compiled(*args)


class Expecting:
    """Runs a graph and hands on its first outputs; the others have to be true, or nothing has happened."""

    def __init__(self, compiled: Callable[..., Any], outputs: int, in_vain: Callable[[int], None]) -> None:
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
        return Input(name, "float" if isinstance(example, float | torch.SymFloat) else "int", (), "")
    return Input(name, str(example.dtype).removeprefix("torch."), tuple(map(str, example.shape)), str(example.device))


def call_backend(backend: Backend, options: Options, report: Reporter, gm: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
    """What a backend makes of a graph; the graph as it is, with a warning, where the backend says that it is not for such graphs."""
    reason = refusal(backend, gm)
    if reason:
        if REQUIRED in options.backend_options:
            raise RequirementError(f"CUDA graphs are required, but backend '{backend.described}' {reason}")
        report(f"runs in eager: backend '{backend.name}' {reason}")
        warn_once(f"backend '{backend.described}' {reason}: graphs that it is not for run in eager")
        return gm.forward
    compiled = whole(backend)(gm, examples, **arguments(backend, options, report))
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
        warnings.warn(f"framejit: {text}", stacklevel=2)


class Autocasts:
    """What autocast does on some devices."""

    def __init__(self, devices: Sequence[str]) -> None:
        self.on = [(device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)) for device in devices]
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
    """Leaves the levels of torch.func above one; forward derivatives, too, where the graph has switched them on."""
    while (torch._C._functorch.maybe_current_level() or 0) > level:
        kind = torch._C._functorch.peek_interpreter_stack().key()
        if kind == TransformType.Jvp:
            torch._C._set_fwd_grad_enabled(not torch.is_inference_mode_enabled())
            with contextlib.suppress(RuntimeError):  # only the outermost of such levels has one of these open
                torch._C._exit_dual_level(level=0)
        LEAVE[kind]()


class Restoring:
    """Runs a graph; when it raises, grad mode, autocast on `devices`, the generators and inputs that it writes into are put back. Then
    the captured graph runs, from now on, or, where it raises too, Rerun says that the frame can start over. Inputs are kept where an
    operator behind a write may raise; for failures that nobody can foresee (no memory) it raises what it got when something was written
    already."""

    def __init__(
        self, compiled: Callable[..., Any], forward: Callable[..., Any], backend: str, random: bool, mutated: Sequence[int], keeps: bool,
        devices: Iterable[str],
    ) -> None:  # fmt: skip
        self.compiled, self.forward, self.backend = compiled, forward, backend
        self.random, self.mutated, self.keeps, self.devices = random, tuple(mutated), keeps, tuple(devices)

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
            clear_frames(error.__traceback__)  # inference mode ends with the object that entered it, which may not live on there
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
                            tensor.detach().copy_(before)
            elif versions != [version(tensor) for tensor in written]:
                raise
            return self.instead(error, args)

    def instead(self, error: Exception, args: tuple[Any, ...]) -> Any:
        """What the captured graph returns, everything being as it was before the compiled one raised."""
        if self.compiled == self.forward or isinstance(error, torch.OutOfMemoryError):
            raise Rerun from error
        result = Restoring(self.forward, self.forward, self.backend, self.random, self.mutated, self.keeps, self.devices)(*args)
        self.compiled = self.forward
        tell(self.backend, error)
        return result


def version(tensor: torch.Tensor) -> int:
    """How often a tensor was written to; a new object, equal to none, where torch does not count."""
    return object() if tensor.is_inference() else tensor._version  # type: ignore[return-value]
