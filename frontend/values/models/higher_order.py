"""torch's higher-order operators. Of cond, while_loop, scan, map and flex_attention, the functions
that they are given are captured as graphs, and the call is one node. associative_scan is inlined,
since its kernel for plain tensors is Python. The others break: in eager they call torch.compile,
which refuses functions that a kernel would run."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import torch
import torch.fx
from torch._C import DispatchKey
from torch._C._functorch import TransformType
from torch._ops import HigherOrderOperator

from ....backends.graph.higher_order_call import HigherOrderCall, Operand, ViewsCall
from ....errors import GraphBreak, SkipFrame
from ..base import Value
from ..constant import Constant
from ..containers.sequence import Sequence as SequenceValue
from ..context import TraceContext
from ..functions.function import FunctionValue
from ..objects.user_object import UserObject
from ..registry import models
from ..tensor.captured_function import (
    CapturedFunction,
    capture_function,
    check_alike,
    free_values,
    nodes_of,
    parameters_like,
)
from ..tensor.tensor import TensorValue
from ..tensor.tensor_tree import TensorTree

# The functions by which programs call the operators. What they do depends on whether they are
# traced, so a break inside is one before the whole call.
CALLERS = {
    "torch._higher_order_ops.while_loop": "while_loop",
    "torch._higher_order_ops.scan": "scan",
    "torch._higher_order_ops.map": "map",
    "torch.nn.attention.flex_attention": "flex_attention",
}

Handler = Callable[..., Value]


def _model_caller(module: str, name: str) -> None:
    @models((module, name))
    def call_as_a_whole(tx: TraceContext, *args: Value, **kwargs: Value) -> Value:
        """Interprets the function, without a place in it where a break could be made."""
        function = tx.wrap(getattr(sys.modules[module], name), None)
        assert isinstance(function, FunctionValue)
        return tx.calls.inline(function, list(args), kwargs)


for _module, _name in CALLERS.items():
    _model_caller(_module, _name)


@models(HigherOrderOperator.__call__)
def call(tx: TraceContext, operator: Value, *args: Value, **kwargs: Value) -> Value:
    """Captures a call of a supported operator as one node. Breaks for the others, and under a
    derivative."""
    real: Any = operator.real if isinstance(operator, UserObject) else None
    name = real._name if isinstance(real, HigherOrderOperator) else ""
    handler = OPERATORS.get(name)
    # torch 2.15 says, as a text, which arguments the functions write
    given = {key: value for key, value in kwargs.items() if key != "mutated_arg_indices"}
    written = kwargs.get("mutated_arg_indices", Constant(""))
    if handler is None or given or written.literal(tx) != "":
        raise GraphBreak("unknown-call", f"the higher-order operator {name or operator.describe()}")
    if handler is not associative_scan and is_under_a_derivative():
        raise GraphBreak("unknown-call", f"{name} inside torch.func.grad, vjp or jvp")
    try:
        return handler(OperatorCall(tx, real), *args)
    except GraphBreak as stop:
        # compiled itself, one of them would go on after the break as if it were still traced
        if tx.frames.root_globals().get("__name__") in CALLERS:
            raise SkipFrame(stop.sentence) from stop
        raise


def is_under_a_derivative() -> bool:
    """Whether a level of torch.func is open that differentiates: torch refuses most operators
    there."""
    levels = torch._C._functorch.get_interpreter_stack() or ()
    return any(level.key() != TransformType.Vmap for level in levels)


class OperatorCall:
    """A call of a higher-order operator that becomes one node. `start`: the graph before the
    functions that it is given were interpreted."""

    def __init__(self, tx: TraceContext, operator: HigherOrderOperator) -> None:
        self.tx, self.operator, self.start = tx, operator, tx.graph.mark()

    @property
    def name(self) -> str:
        return self.operator.name()

    def capture(self, function: Value, examples: Sequence[torch.Tensor]) -> CapturedFunction:
        """Captures a function that the operator calls with tensors like the examples."""
        parameters = parameters_like(self.tx, examples)
        return capture_function(self.tx, self.name, function, list(parameters), parameters)

    def node(self, operands: Sequence[Value], arguments: tuple[Any, ...]) -> list[Value]:
        """Replaces the nodes since `start` by one that calls the operator; returns its results."""
        self.tx.graph.rollback(self.start)
        kind = ViewsCall if self.name in ("while_loop", "map_impl") else HigherOrderCall
        node = kind(self.operator, arguments)
        return self.tx.graph.function(node, *operands).unpack(self.tx)


def positions(first: int, count: int) -> list[Operand]:
    """Stand for `count` arguments of the node, from the position `first` on."""
    return [Operand(position) for position in range(first, first + count)]


@models(("torch._higher_order_ops.invoke_subgraph", "invoke_subgraph_placeholder"))
def call_region(tx: TraceContext, function: Value, *args: Value, **kwargs: Value) -> Value:
    """A call of what torch.compiler.nested_compile_region marks: equal kernels are compiled once in
    any case."""
    return function.call(tx, list(args), kwargs)


# cond


@models(torch.cond)
def torch_cond(
    tx: TraceContext, pred: Value, true_fn: Value, false_fn: Value, operands: Value | None = None
) -> Value:
    given = tx.make.tuple_of([]) if operands is None else operands
    if is_under_a_derivative():
        raise GraphBreak("unknown-call", "torch.cond inside torch.func.grad, vjp or jvp")
    return cond(OperatorCall(tx, torch.ops.higher_order.cond), pred, true_fn, false_fn, given)


def cond(
    call: OperatorCall, predicate: Value, true_fn: Value, false_fn: Value, operands: Value
) -> Value:
    """torch.cond: each branch is a graph, and both must return alike tensors. A predicate that is
    no tensor is decided now."""
    tx = call.tx
    given, predicate = operands.unpack(tx), tx.look(predicate)
    if not isinstance(predicate, TensorValue):
        return (true_fn if predicate.truth(tx) else false_fn).call(tx, given, {})
    TensorTree(tx, operands)  # torch refuses others
    if predicate.fake.numel() != 1 or predicate.fake.dtype is not torch.bool:
        raise GraphBreak("exception-leaves", "RuntimeError: torch.cond needs one bool")
    branches = [capture_function(tx, "cond", branch, given) for branch in (true_fn, false_fn)]
    for branch in branches:
        branch.check_results_are_new()
    when_true, when_false = branches
    if when_true.result.structure != when_false.result.structure:
        raise when_true.refusal("the two return different structures")
    unlike = when_true.refusal("the two return tensors with different properties")
    check_alike(when_true.result.leaves, when_false.result.leaves, unlike)
    free = free_values(tx, branches)
    graphs = [branch.graph_of(nodes_of(tx, free)) for branch in branches]
    arguments = (Operand(0), *graphs, tuple(positions(1, len(free))))
    results = call.node([predicate, *free], arguments)
    return when_true.result.rebuild(tx, results)


# while_loop


def while_loop(
    call: OperatorCall, cond_fn: Value, body_fn: Value, carried: Value, additional: Value
) -> Value:
    """while_loop: condition and body are graphs of the carried tensors, which keep their
    properties."""
    tx = call.tx
    given, more = TensorTree(tx, carried).leaves, TensorTree(tx, additional).leaves
    examples = [value.fake for value in (*given, *more)]
    functions = test, body = [call.capture(function, examples) for function in (cond_fn, body_fn)]
    for function in functions:
        function.check_results_are_new()
    if [(leaf.fake.dtype, leaf.fake.dim()) for leaf in test.result.leaves] != [(torch.bool, 0)]:
        raise test.refusal("the condition is not a bool tensor without dimensions")
    check_alike(given, body.result.leaves, body.refusal(OTHER_PROPERTIES))
    if not all(value.fake.is_contiguous() for value in given):
        raise body.refusal("a carried tensor is not contiguous")  # results may be
    free = free_values(tx, functions)
    graphs = [function.graph_of(nodes_of(tx, free)) for function in functions]
    arguments = (
        *graphs,
        tuple(positions(0, len(given))),
        tuple(positions(len(given), len(more) + len(free))),
    )
    results = call.node([*given, *more, *free], arguments)
    return body.result.rebuild(tx, results)


OTHER_PROPERTIES = "it returns tensors with other properties than it gets"


# scan


def scan(
    call: OperatorCall, combine: Value, init: Value, xs: Value, additional_inputs: Value
) -> Value:
    """scan: the function is a graph of the carried tensors and of one slice of the scanned ones."""
    tx = call.tx
    carried, scanned = TensorTree(tx, init).leaves, TensorTree(tx, xs).leaves
    more = TensorTree(tx, additional_inputs).leaves
    examples = [value.fake for value in carried]
    examples += [value.fake[0] for value in scanned] + [value.fake for value in more]
    step = call.capture(combine, examples)
    step.check_results_are_new()
    check_alike(carried, step.result.leaves[: len(carried)], step.refusal(OTHER_PROPERTIES))
    free = free_values(tx, [step])
    graph = step.graph_of(nodes_of(tx, free))
    operands = [*carried, *scanned, *more, *free]
    first = len(carried) + len(scanned)
    arguments = (
        graph,
        positions(0, len(carried)),
        positions(len(carried), len(scanned)),
        tuple(positions(first, len(more) + len(free))),
    )
    return step.result.rebuild(tx, call.node(operands, arguments))


# map


def map_impl(call: OperatorCall, function: Value, xs: Value, additional: Value) -> Value:
    """map: the function is a graph of one slice of the mapped tensors."""
    tx = call.tx
    mapped, more = TensorTree(tx, xs).leaves, TensorTree(tx, additional).leaves
    examples = [value.fake[0] for value in mapped] + [value.fake for value in more]
    step = call.capture(function, examples)
    step.check_results_are_new()
    free = free_values(tx, [step])
    graph = step.graph_of(nodes_of(tx, free))
    arguments = (
        graph,
        tuple(positions(0, len(mapped))),
        tuple(positions(len(mapped), len(more) + len(free))),
    )
    return step.result.rebuild(tx, call.node([*mapped, *more, *free], arguments))


# flex_attention


def flex_attention(call: OperatorCall, *given: Value) -> Value:
    """`given`: query, key, value, score_mod, block_mask, scale, kernel_options, and buffers."""
    tx = call.tx
    *tensors_given, score_mod, block_mask, scale, kernel_options = given[:7]
    buffers = given[7:]
    if any(other.all(tx) for other in buffers if isinstance(other, SequenceValue)):
        raise GraphBreak("unknown-call", "flex_attention_hop() with buffers")
    *parts, mask_mod = block_mask.unpack(tx)
    query, key, value = map(tx.look, tensors_given)
    assert isinstance(query, TensorValue)
    score = query.fake.new_empty((), requires_grad=query.fake.requires_grad)
    index = query.fake.new_empty((), dtype=torch.int32)
    with indexing_by_tensors():
        scores = call.capture(score_mod, [score, index, index, index, index])
        mask = call.capture(mask_mod, [index] * 4)
    tensors = [part for part in map(tx.look, parts) if isinstance(part, TensorValue)]
    free = [free_values(tx, [function]) for function in (scores, mask)]
    graphs = [
        single_result(function.graph_of(nodes_of(tx, values)))
        for function, values in zip((scores, mask), free, strict=True)
    ]
    operands = [query, key, value, *tensors, *free[0], *free[1]]
    places = iter(positions(3, len(tensors)))
    after = 3 + len(tensors)
    arguments = (
        *positions(0, 3),
        graphs[0],
        (
            *(
                next(places) if isinstance(part, TensorValue) else part.constant()
                for part in map(tx.look, parts)
            ),
            graphs[1],
        ),
        scale.constant(),
        kernel_options.literal(tx),
        tuple(positions(after, len(free[0]))),
        tuple(positions(after + len(free[0]), len(free[1]))),
    )
    return tx.make.tuple_of(call.node(operands, arguments))


@models(("torch._dynamo.decorators", "mark_static"))
def mark_static(tx: TraceContext, tensor: Value, dim: Value) -> Value:
    """Relies on a size of a tensor, where flex_attention asks for that. Elsewhere it is left to
    Python, which leaves a mark on the tensor."""
    name = tx.frames.innermost_globals().get("__name__")
    if name != "torch.nn.attention.flex_attention":
        raise GraphBreak("unknown-call", "torch._dynamo.mark_static")
    tensor.method(tx, "size", [dim], {}).constant()
    return Constant(None)


@models(("torch.fx.experimental.symbolic_shapes", "has_free_unbacked_symbols"))
def has_free_unbacked_symbols(tx: TraceContext, tensor: Value) -> Value:
    """Whether a size of a tensor depends on values, which flex_attention asks."""
    tensor = tx.look(tensor)
    if not isinstance(tensor, TensorValue):
        raise GraphBreak("unknown-call", "torch.fx's has_free_unbacked_symbols")
    return Constant(tx.symbols.exist and tx.symbols.shapes.depends_on_values(tensor.fake))


@models(("torch.fx.traceback", "annotate"))
def annotate(tx: TraceContext, annotation_dict: Value) -> Value:
    """Does nothing: it is for torch's tracers, whose dictionary changes while they run the fake
    results of a graph."""
    return tx.wrap(contextlib.nullcontext, None).call(tx, [], {})


def indexing_by_tensors() -> Any:
    """The mode in which torch runs score_mod and mask_mod: `bias[h]` takes a tensor as an index."""
    module = importlib.import_module("torch._dynamo._trace_wrapped_higher_order_op")
    return module.TransformGetItemToIndex()


def single_result(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """A graph that returns its one result, not in a tuple."""
    output = module.graph.output_node()
    (output.args,) = output.args  # type: ignore[assignment]
    module.recompile()
    return module


# associative_scan


def associative_scan(
    call: OperatorCall, combine: Value, scanned: Value, additional: Value
) -> Value:
    """Interprets torch's kernel in Python. Its autograd kernel takes no gradients of additional
    inputs."""
    tx = call.tx
    kernel = call.operator.py_kernels.get(DispatchKey.CompositeExplicitAutograd)
    if type(kernel) is not FunctionType:
        raise GraphBreak("unknown-call", "the higher-order operator associative_scan")
    if differentiable(tx, additional):
        raise GraphBreak(
            "exception-leaves",
            "RuntimeError: associative_scan has no gradients for additional inputs",
        )
    found = tx.wrap(kernel, None).call(tx, [combine, scanned, additional], {})
    if not differentiable(tx, scanned):
        return found
    # a tuple of new tensors, as its kernel for autograd makes them
    given, results = (scanned.unpack(tx), found.unpack(tx))
    if any(result.is_same(leaf) for result in results for leaf in given):
        raise GraphBreak("unknown-call", "associative_scan of one item, with gradients")
    return tx.make.tuple_of(results)


def differentiable(tx: TraceContext, tensors: Value) -> bool:
    """Whether gradients are calculated for one of them."""
    leaves = (tx.look(item) for item in tensors.unpack(tx))
    return torch.is_grad_enabled() and any(
        isinstance(leaf, TensorValue) and leaf.fake.requires_grad for leaf in leaves
    )


# by name; called with the call and the arguments of the operator
OPERATORS: dict[str, Handler] = {
    "cond": cond,
    "while_loop": while_loop,
    "scan": scan,
    "map_impl": map_impl,
    "flex_attention": flex_attention,
    "associative_scan": associative_scan,
}
