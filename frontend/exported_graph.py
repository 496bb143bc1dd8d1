"""framejit.export: one graph of a whole function, without running it."""

from __future__ import annotations

import types
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.fx
import torch.utils._pytree as pytree

from ..backends.compile_graph import GraphRequest, finish_graph
from ..clock import Clock
from ..errors import ExportError, GraphBreak, SkipFrame
from ..events import UNREPORTED
from ..guards.guard import Guard
from ..guards.reference import check, explain
from ..guards.source import FrameView, Source
from ..options import Options
from ..records import record
from . import api
from .control import condition
from .framejit_attribute import title_of
from .pycode.decode import decode
from .runtime._hook import Site
from .runtime.cache import Cache
from .runtime.entry_guards import entry_guards
from .tracing.capture import Capture
from .tracing.graph_inputs import GraphInput
from .tracing.input_memory import input_memory
from .tracing.interpreter.outcome import Restart, ReturnExit
from .tracing.interpreter.root import CaptureRequest, capture_call
from .tracing.sizes.variation import Variation
from .tracing.uncaptured_code import UncapturedCode
from .values.base import Value
from .values.containers.sequence import is_namedtuple_class
from .values.context import TraceContext
from .values.tensor.tensor import TensorValue
from .values.tensor.tensor_tree import items_of


@record
class InputSpec:
    """An input of an exported graph. path: how the function reaches it, such as "x" or
    "self.weight". shape: sizes; a symbol's name for one that varies. mutated: whether the graph
    writes into it. dtype is int or float for a number."""

    path: str
    dtype: torch.dtype | type
    shape: tuple[int | str, ...]
    device: torch.device | None
    requires_grad: bool
    mutated: bool


@record
class ResultPlace:
    """Stands for a result of the graph in what the function returns."""

    position: int


class ExportedGraph:
    """A function as one graph: `graph_module` takes what `inputs` describes, in that order, and
    returns a tuple. conditions: what has to hold for a call.

    Called with arguments of the function, it checks the conditions, finds the inputs, and returns
    what the function returns.
    """

    def __init__(
        self,
        graph_module: torch.fx.GraphModule,
        inputs: Sequence[InputSpec],
        function: types.FunctionType,
        bound: tuple[Any, ...],
        sources: Sequence[Source],
        guards: Sequence[Guard],
        returned: Any,
    ) -> None:
        self.graph_module, self.inputs = graph_module, tuple(inputs)
        self._function, self._bound = function, bound
        self._sources, self._guards, self._returned = tuple(sources), tuple(guards), returned

    @property
    def conditions(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(map(condition, self._guards)))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raises ValueError where a condition does not hold."""
        frame = frame_of_call(self._function, self._bound, args, kwargs)
        for guard in self._guards:
            if not check(guard, frame):
                raise ValueError(f"the exported graph is for other calls: {explain(guard, frame)}")
        results = self.graph_module(*(source.load(frame) for source in self._sources))
        return pytree.tree_map(
            lambda leaf: results[leaf.position] if isinstance(leaf, ResultPlace) else leaf,
            self._returned,
        )


def export_graph(fn_or_module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ExportedGraph:
    """The graph of a call (framejit.export)."""
    options = replace(api.make_options("eager", None, False, None, None), verify=0)
    function, bound = api.underlying(fn_or_module)
    frame = frame_of_call(function, bound, args, kwargs)
    name = title_of(fn_or_module)
    try:
        request = CaptureRequest(options, function, Variation(), UncapturedCode(), None, Clock())
        capture = capture_call(request, decode(function.__code__), frame.slots)
    except (GraphBreak, Restart, SkipFrame) as stop:
        reason = stop.reason if isinstance(stop, Restart) else stop
        found = all_breaks(fn_or_module, options, args, kwargs)
        raise ExportError(name, found or [str(reason)]) from None
    try:
        if not isinstance(capture.exit, ReturnExit):
            found = all_breaks(fn_or_module, options, args, kwargs)
            first = f"{capture.exit.where}: {capture.exit.reason.sentence}"
            raise ExportError(name, found or [first])
        symbols = capture.trace.symbols
        facts = symbols.shapes.facts_at_run_time() if symbols.exist else None
        if facts is not None:
            raise ExportError(name, [f"{facts.origin.break_before().sentence}, which is checked"])
        effects = effects_of(capture)
        if effects:
            raise ExportError(name, effects)
        return make_exported_graph(capture, capture.exit.value, options, function, bound, name)
    finally:
        capture.trace.release_objects()


def make_exported_graph(
    capture: Capture,
    value: Value,
    options: Options,
    function: types.FunctionType,
    bound: tuple[Any, ...],
    name: str,
) -> ExportedGraph:
    """The graph of a capture that ran to its end."""
    builder = capture.trace.graph
    outputs: list[torch.fx.Node] = []
    try:
        returned = result_template(capture.trace, value, outputs)
    except GraphBreak as error:
        raise ExportError(name, [f"its result: {error.sentence}"]) from None
    used = [item for item in builder.inputs if item.node.users or item.node in outputs]
    inputs = [item.node for item in used]
    memory = input_memory(builder, inputs)
    specs = [input_spec(item) for item in used]
    request = GraphRequest(builder, inputs, outputs, options, UNREPORTED)
    module = finish_graph(request, outputs)
    guards = entry_guards(capture, inputs, memory)
    sources = [item.source for item in used]
    return ExportedGraph(module, specs, function, bound, sources, guards, returned)


def result_template(tx: TraceContext, value: Value, outputs: list[torch.fx.Node]) -> Any:
    """What the function returns, as an object with a ResultPlace for each tensor."""
    value = tx.look(value)
    if isinstance(value, TensorValue):
        outputs.append(value.node)
        return ResultPlace(len(outputs) - 1)
    if value.is_constant():
        return value.constant()
    items, keys = items_of(tx, value)
    cls: Any = value.python_type()
    parts = [result_template(tx, item, outputs) for item in items]
    if cls is dict:
        return dict(zip(keys, parts, strict=True))
    return cls(*parts) if is_namedtuple_class(cls) else cls(parts)


def input_spec(item: Any) -> InputSpec:
    """Describes an input of a graph under construction."""
    path = item.source.name
    if not isinstance(item, GraphInput):
        return InputSpec(path, item.value.python_type(), (), None, False, False)
    fake = item.value.fake
    shape = tuple(size if isinstance(size, int) else str(size) for size in fake.shape)
    return InputSpec(path, fake.dtype, shape, fake.device, fake.requires_grad, item.is_mutated)


def effects_of(capture: Capture) -> list[str]:
    """What a call does besides its graph, in sentences."""
    effects, random = capture.trace.effects, capture.trace.random
    changed = [
        f"{value.describe()} is changed" for value in effects.changed if value.source is not None
    ]
    stored = [f"global '{name}' is assigned" for _, name in effects.globals]
    written = ["it writes output or registers a hook" for _ in effects.outputs[:1]]
    branches = ["a branch tests the value of a tensor" for _ in effects.expected[:1]]
    seeded = ["it sets the random generator's state"] if random.seed is not None else []
    return [*changed, *stored, *written, *branches, *seeded]


def all_breaks(
    fn_or_module: Any, options: Options, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[str]:
    """The breaks of a call, each with its line; the function is called."""
    report = api.report_calls(fn_or_module, options, 1, args, kwargs)
    return [f"{found.where}: {found.reason}" for found in report.breaks]


class CallFound(Exception):  # noqa: N818 - it steers
    """A call, instead of its execution."""

    def __init__(self, frame: FrameView) -> None:
        self.frame = frame


class CallFinder(Cache):
    """A handle's cache that raises CallFound."""

    def on_miss(self, site: Site, function: types.FunctionType, slots: tuple[Any, ...]) -> Any:
        raise CallFound(FrameView(slots, function))


def frame_of_call(
    function: types.FunctionType,
    bound: tuple[Any, ...],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> FrameView:
    """The frame of a call at its start. Raises TypeError as the call does."""
    try:
        CallFinder(function, Options()).handle(*bound, *args, **kwargs)
    except CallFound as found:
        return found.frame
    raise TypeError(f"{function.__qualname__} cannot be captured: it runs in eager")
