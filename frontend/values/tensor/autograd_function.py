"""torch.autograd.Function: forward and backward are interpreted at the call of apply(), cut out of
the graph, and replaced by one node that is differentiated as the class defines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx
from torch._C._functorch import TransformType
from torch.autograd.function import Function, FunctionCtx, _SingleLevelFunction, once_differentiable

from ....backends.graph.extracted_calls import (
    ContextMarks,
    CustomBackward,
    CustomFunction,
    ExtractedGraph,
    TransformedFunction,
    extract_subgraph,
)
from ....errors import GraphBreak
from ..base import CannotReconstruct, ObservedException, Value
from ..constant import Constant
from ..containers.sequence import TupleValue
from ..context import TraceContext
from ..emitter import Emitter
from ..functions.function import FunctionValue
from ..objects.class_value import ClassValue
from ..objects.user_object import UserObject
from .tensor import TensorValue
from .traced_call import TracedCall, interpret_without_effects, tensors_of


class ContextValue(UserObject):
    """The `ctx` of a custom function: attributes of its own, what was saved, which inputs want
    gradients."""

    __slots__ = ("needs", "saved")
    has_plain_dictionary = False

    def __init__(self, needs: Sequence[bool] | None) -> None:
        super().__init__(FunctionCtx)
        self.needs = None if needs is None else tuple(needs)
        self.saved: list[Value] | None = None  # known when backward is interpreted

    def generic_attribute(self, tx: TraceContext, name: str) -> Value:
        if name == "needs_input_grad" and self.needs is not None:
            return tx.wrap(self.needs, None)
        if name == "saved_tensors" and self.saved is not None:
            return TupleValue(self.saved)
        if (
            name not in self.attrs
            and hasattr(torch._C._FunctionBase, name)
            and not hasattr(FunctionCtx, name)
        ):
            raise self.unsupported_use(f"attribute {name}")
        return super().generic_attribute(tx, name)

    def declared_tensors(self, tx: TraceContext, name: str, otherwise: Any) -> list[Value]:
        """The tensors that forward passed to save_for_backward, mark_non_differentiable and the
        like."""
        value = self.attrs.get(name)
        return otherwise if value is None else value.unpack(tx)

    def reconstruct(self, emit: Emitter) -> None:
        raise CannotReconstruct(self)


# attributes of a class whose backward is called in another way
OTHER_BACKWARDS = ("boxed_grads_call", "clear_saved_tensors_on_access")
ONCE = once_differentiable(print).__code__  # of every backward under that decorator


def call_apply(tx: TraceContext, cls: ClassValue, args: list[Value]) -> Value:
    """cls.apply(*args)."""
    function: Any = cls.cls
    tx.modes.require_known_grad_mode()  # inside the backward pass of another
    if has_setup_context(function):
        args = with_defaults(cls.attribute(tx, "forward"), args)
    args = [tx.look(arg) for arg in args]
    transformed = torch._C._functorch.maybe_current_level() is not None
    refuse_unusual_call(tx, cls, args, transformed)
    # which inputs want gradients differs from level to level
    needs = [isinstance(arg, TensorValue) and arg.fake.requires_grad for arg in args]
    ctx = ContextValue(None if transformed else needs)
    differentiable = transformed or (torch.is_grad_enabled() and any(needs))
    call, forward = trace_forward(tx, cls, ctx, args)
    backward = trace_backward(tx, cls, ctx, args, forward.results) if differentiable else None
    if transformed and ctx.declared_tensors(tx, "dirty_tensors", []):
        raise undeclared_write(function)
    kind = TransformedFunction if transformed else CustomFunction
    return call.wrap(forward.results, call_node(tx, function, ctx, forward, backward, kind))


def has_setup_context(function: Any) -> bool:
    """Whether a class has a setup_context() beside a forward() that takes no context."""
    return function.setup_context is not _SingleLevelFunction.setup_context


def is_once_differentiable(function: Any) -> bool:
    return getattr(function.backward, "__code__", None) is ONCE


def refuse_unusual_call(
    tx: TraceContext, cls: ClassValue, args: list[Value], transformed: bool
) -> None:
    """Breaks where torch would not call backward as written: for a class with another protocol,
    without tensors, or inside a transform (`transformed`) that does not take the class."""
    function: Any = cls.cls
    stop = ""
    for name in OTHER_BACKWARDS:
        if hasattr(function, name) and cls.attribute(tx, name).truth(tx):
            stop = f"with {name}"
    if not any(isinstance(arg, TensorValue) for arg in args):
        stop = "without tensors"
    plain = all(isinstance(arg, TensorValue) or arg.is_constant() for arg in args)
    if transformed and not (plain and is_transformable(function)):
        stop = "inside a torch.func transform"
    if stop:
        raise GraphBreak("unknown-call", f"{function.__qualname__}.apply() {stop}")


def undeclared_write(function: Any) -> GraphBreak:
    return GraphBreak("unsupported-mutation", f"of an input by {function.__qualname__}.forward")


def is_transformable(function: Any) -> bool:
    """Whether torch.func's transforms take a function, at the levels that are open now, and derive
    all that they need from its forward and backward."""
    kinds = {level.key() for level in torch._C._functorch.get_interpreter_stack() or ()}
    own_rule = function.vmap is not Function.vmap
    by_batches = function.generate_vmap_rule and not own_rule
    return (
        has_setup_context(function)
        and kinds <= {TransformType.Grad, TransformType.Vmap}
        and (by_batches or TransformType.Vmap not in kinds)
        and not is_once_differentiable(function)
    )


def with_defaults(forward: Value, args: list[Value]) -> list[Value]:
    """The arguments as setup_context gets them, including defaults."""
    if not isinstance(forward, FunctionValue) or forward.code.co_kwonlyargcount:
        raise forward.unsupported_use("forward of a function with setup_context")
    missing = forward.code.co_argcount - len(args)
    return args + forward.defaults[len(forward.defaults) - missing :] if missing > 0 else args


def version(tensor: TensorValue) -> int:
    return -1 if tensor.fake.is_inference() else tensor.fake._version


def declares_all_writes(
    written: list[TensorValue], dirty: list[Value], tensors: list[TensorValue], results: list[Value]
) -> bool:
    """Whether forward marks all tensors that it writes as dirty and returns them, and torch accepts
    that."""
    if not written and not dirty:
        return True
    nodes = [tensor.node for tensor in tensors]
    returned = {result.node for result in tensors_of(results)}
    alone = all(
        tensor.fake._base is None and nodes.count(tensor.node) == 1 and tensor.node in returned
        for tensor in written
    )
    return (
        alone
        and len(set(nodes)) == len(nodes)
        and {tensor.node for tensor in tensors_of(dirty)} == {tensor.node for tensor in written}
    )


def run_forward(tx: TraceContext, cls: ClassValue, ctx: ContextValue, args: list[Value]) -> Value:
    """The result of forward(), after setup_context() where the class has one."""
    if not has_setup_context(cls.cls):
        return cls.attribute(tx, "forward").call(tx, [ctx, *args], {})
    result = tx.look(cls.attribute(tx, "forward").call(tx, args, {}))
    cls.attribute(tx, "setup_context").call(tx, [ctx, TupleValue(args), result], {})
    return result


@dataclass
class ForwardTrace:
    """The forward pass: its nodes, the tensors that it takes, its results, and the graph's mark
    before it."""

    nodes: list[torch.fx.Node]
    tensors: list[TensorValue]
    results: list[Value]
    start: int

    @property
    def inputs(self) -> list[torch.fx.Node]:
        return [tensor.node for tensor in self.tensors]

    @property
    def outputs(self) -> list[torch.fx.Node]:
        return [result.node for result in tensors_of(self.results)]


def trace_forward(
    tx: TraceContext, cls: ClassValue, ctx: ContextValue, args: list[Value]
) -> tuple[TracedCall, ForwardTrace]:
    """Interprets the forward pass. Breaks where it writes to an input without saying so."""
    tensors = [arg for arg in args if isinstance(arg, TensorValue)]
    versions = [version(tensor) for tensor in tensors]
    start = tx.graph.mark()
    call = interpret_without_effects(tx, args, False, lambda: run_forward(tx, cls, ctx, args))
    results = call.results(tx, f"{cls.cls.__qualname__}.forward")
    pairs = zip(tensors, versions, strict=True)
    written = [tensor for tensor, before in pairs if version(tensor) != before]
    dirty = ctx.declared_tensors(tx, "dirty_tensors", [])
    if not declares_all_writes(written, dirty, tensors, results):
        raise undeclared_write(cls.cls)
    return call, ForwardTrace(call.nodes, tensors, results, start)


@dataclass
class BackwardTrace:
    """The backward pass: placeholders of the incoming gradients, its nodes, and a gradient (or
    None) for each tensor argument."""

    incoming: list[torch.fx.Node]
    strides: list[tuple[int, ...]]
    nodes: list[torch.fx.Node]
    gradients: list[torch.fx.Node | None]


def incoming_gradient(position: int) -> None:
    """Stands for a gradient while backward is interpreted; extract_subgraph makes it an input."""


def trace_backward(
    tx: TraceContext, cls: ClassValue, ctx: ContextValue, args: list[Value], results: list[Value]
) -> BackwardTrace:
    """Interprets the backward pass, on stand-ins for the gradients of the results."""
    missing = missing_gradients(tx, cls, ctx, results)
    ctx.saved = ctx.declared_tensors(tx, "to_save", [])
    grads = [
        tx.graph.stand_in(incoming_gradient, position, result.fake)
        if isinstance(result, TensorValue)
        else Constant(None)
        for position, result in enumerate(results)
    ]
    incoming = [grad for grad in grads if isinstance(grad, TensorValue)]
    given = [Constant(None) if at in missing else grad for at, grad in enumerate(grads)]
    traced = run_backward(tx, cls, args, [ctx, *given])
    returned = traced.value.all(tx) if isinstance(traced.value, TupleValue) else [traced.value]
    extra = returned[len(args) :]
    if len(returned) < len(args) or any(not value.is_none() for value in extra):
        raise GraphBreak(
            "exception-leaves",
            f"{cls.cls.__qualname__}.backward returns {len(returned)} gradients for {len(args)} "
            "inputs",
        )
    return BackwardTrace(
        [grad.node for grad in incoming],
        [tuple(grad.fake.stride()) for grad in incoming],
        traced.nodes,
        gradient_nodes(args, returned),
    )


def missing_gradients(
    tx: TraceContext, cls: ClassValue, ctx: ContextValue, results: list[Value]
) -> set[int]:
    """The positions of results for which backward gets None: those that are not differentiable,
    where missing gradients do not become zeros. Breaks where more than one result is: which of
    their gradients are missing is known in the backward pass only."""
    materialize = ctx.attrs.get("materialize_grads")
    if materialize is None or materialize.truth(tx):
        return set()
    fixed = [value.node for value in tensors_of(ctx.declared_tensors(tx, "non_differentiable", []))]
    differentiable = {
        position
        for position, result in enumerate(results)
        if isinstance(result, TensorValue)
        and result.node not in fixed
        and (result.fake.is_floating_point() or result.fake.is_complex())
    }
    transformed = torch._C._functorch.maybe_current_level() is not None
    if len(results if transformed else differentiable) > 1:
        raise GraphBreak(
            "unsupported-value",
            f"{cls.cls.__qualname__} with several outputs and set_materialize_grads(False)",
        )
    return set(range(len(results))) - differentiable


def run_backward(
    tx: TraceContext, cls: ClassValue, args: list[Value], given: list[Value]
) -> TracedCall:
    """Calls backward() with a context and gradients. args: those of forward."""
    function: Any = cls.cls
    name = "vjp" if function.vjp is not Function.vjp else "backward"
    later = "" if is_once_differentiable(function) else f"{function.__qualname__}.{name}()"
    try:
        with tx.modes.unknown_grad_mode(later):
            return interpret_without_effects(
                tx, args, False, lambda: cls.attribute(tx, name).call(tx, given, {})
            )
    except ObservedException as error:
        raise GraphBreak(
            "exception-leaves", f"{error.cls.__name__} in {function.__qualname__}.backward"
        ) from None


def gradient_nodes(args: list[Value], returned: list[Value]) -> list[torch.fx.Node | None]:
    """The node of the gradient of each tensor argument, None where backward gave None."""
    gradients = []
    for arg, value in zip(args, returned, strict=False):
        if not isinstance(value, TensorValue) and not value.is_none():
            raise GraphBreak("unsupported-value", f"{value.describe()} as a gradient")
        if isinstance(arg, TensorValue):
            gradients.append(value.node if isinstance(value, TensorValue) else None)
        elif isinstance(value, TensorValue):
            raise GraphBreak(
                "exception-leaves", "RuntimeError: a gradient for an argument that is not a tensor"
            )
    return gradients


def call_node(
    tx: TraceContext,
    function: type[Function],
    ctx: ContextValue,
    forward: ForwardTrace,
    backward: BackwardTrace | None,
    kind: type[CustomFunction],
) -> list[Value]:
    """Replaces the nodes of both passes by one node; returns its outputs."""
    front, behind = extract_passes(forward, backward, is_once_differentiable(function))
    results = len(forward.outputs)
    target = kind(function.__name__, front.run, results, context_marks(tx, ctx, forward), behind)
    if isinstance(target, TransformedFunction):
        target.called_at = tx.modes.position_outside_levels() or 0
    if kind is TransformedFunction and not (
        len(front.inputs) == len(forward.tensors) and len(output_of(front)) == results
    ):
        what = "which uses more than its arguments and results, inside a torch.func transform"
        raise GraphBreak("unknown-call", f"{function.__qualname__}.apply(), {what}")
    arguments: list[Value] = [
        *forward.tensors,
        *(tx.graph.value_of(node) for node in front.inputs[len(forward.tensors) :]),
    ]
    tx.graph.rollback(forward.start)
    return tx.graph.function(target, *arguments).unpack(tx)


def output_of(graph: ExtractedGraph) -> Sequence[Any]:
    """What a graph returns."""
    (node,) = graph.module.graph.find_nodes(op="output")
    return node.args[0]


def extract_passes(
    forward: ForwardTrace, backward: BackwardTrace | None, once: bool
) -> tuple[ExtractedGraph, CustomBackward | None]:
    """Both passes as graphs of their own. The forward graph takes the tensors, then whatever else
    either pass uses. It returns the results, then the intermediates that backward uses."""
    inputs, outputs = forward.inputs, forward.outputs
    if backward is None:
        return extract_subgraph(forward.nodes, inputs, outputs), None
    behind = extract_subgraph(backward.nodes, backward.incoming, backward.gradients)
    saved = behind.inputs[len(backward.incoming) :]
    inside = set(forward.nodes)
    intermediates = [node for node in saved if node in inside and node not in outputs]
    outside = [node for node in saved if node not in inside and node not in inputs]
    front = extract_subgraph(forward.nodes, [*inputs, *outside], [*outputs, *intermediates])
    everything = [*front.inputs, *outputs, *intermediates]
    positions = tuple(everything.index(node) for node in saved)
    return front, CustomBackward(behind.run, positions, backward.strides, once)


def context_marks(tx: TraceContext, ctx: ContextValue, forward: ForwardTrace) -> ContextMarks:
    """What forward declared by its context."""
    declared = ctx.declared_tensors(tx, "non_differentiable", [])
    fixed = [value.node for value in declared if isinstance(value, TensorValue)]
    dirty = tensors_of(ctx.declared_tensors(tx, "dirty_tensors", []))
    materialize = ctx.attrs.get("materialize_grads")
    return ContextMarks(
        tuple(position for position, node in enumerate(forward.outputs) if node in fixed),
        tuple(forward.inputs.index(value.node) for value in dirty),
        materialize is None or materialize.truth(tx),
    )
