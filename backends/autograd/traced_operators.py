"""The distinct operators of a captured graph, each traced once together with its backward pass.

A backward pass is traced for gradients with the strides of the operator's results. For other
strides, which are known only while the graph is assembled, it is traced again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.fx
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensor

from ..graph.extracted_calls import Checkpointed, CustomFunction, inner_nodes
from ..graph.fake_values import fake_of
from ..graph.mutations import may_write
from ..graph.node_targets import is_foreign
from ..graph.passes.by_operator import Operator, Operators, Sizes, ancestors_of
from ..graph.passes.captured_nodes import (
    NeedsWholeTrace,
    Window,
    draws_random_numbers,
    on_own_memory,
    tensor_with_window,
    window_of,
)
from ..graph.passes.functional import without_writes
from ..graph.passes.symbolic_sizes import comparable, is_varying_size
from ..graph.tracing_lock import trace_operators
from .own_gradients import own_gradients

Inputs = Sequence[torch.Tensor]
# for each gradient: the number of its result, and its layout
Places = tuple[tuple[int, Window], ...]
ATEN = torch.ops.aten


@dataclass
class BackwardPass:
    """`tangents`: for a result's number, the node that stands for its gradient. `gradients`: for an
    input's number, its gradient."""

    tangents: dict[int, torch.fx.Node]
    nodes: list[torch.fx.Node]
    gradients: dict[int, torch.fx.Node]
    # nodes of the forward pass that was traced first
    same: dict[torch.fx.Node, torch.fx.Node] = field(default_factory=dict)


@dataclass
class Differentiable(Operator):
    """An operator with gradients. `wanted`: numbers of the inputs that get gradients. `outputs`:
    its results, then the new values of inputs that it writes to. `reaching`: numbers of the outputs
    whose gradient reaches an input. (The result of new_zeros() has none, though it takes a tensor
    and may be written to later.)"""

    wanted: tuple[int, ...] = ()
    reaching: frozenset[int] = frozenset()
    grad: bool = True
    backward: dict[Places, BackwardPass] = field(default_factory=dict)

    def inputs_like(self) -> list[torch.Tensor]:
        """Tensors with the layouts of its inputs, no two on the same memory."""
        return [
            on_own_memory(tensor).requires_grad_(number in self.wanted)
            for number, tensor in enumerate(self.tensors)
        ]

    def forward(self, inputs: Inputs, sizes: Sizes) -> tuple[list[torch.Tensor], int]:
        """The results of the operator, then its inputs as they are afterwards if it may write to
        them; and the number of results."""
        given = [tensor.clone() for tensor in inputs] if may_write(self.node) else list(inputs)
        if any(
            window_of(copy) != window_of(tensor) for copy, tensor in zip(given, inputs, strict=True)
        ):
            raise NeedsWholeTrace
        results: list[torch.Tensor] = []
        with torch.set_grad_enabled(self.grad), own_gradients(self.node):
            self.call(given, results, sizes)
        count = len(results)
        return [*results, *(given if may_write(self.node) else ())], count

    def places(self, sizes: Sizes) -> Places:
        """The layouts of all results that have a gradient, for gradients with the strides of the
        results."""
        if not self.wanted:
            return ()
        inputs = self.inputs_like()
        results, _ = self.forward(inputs, sizes)
        self.reaching = frozenset(
            number for number, result in enumerate(results) if result.requires_grad
        )
        seen = set(map(id, inputs))  # a returned input is not a new result
        found = []
        for number, result in enumerate(results):
            if (
                result.requires_grad
                and id(result) not in seen
                and not (may_write(self.node) and is_clone(result))
            ):
                found.append((number, window_of(torch.empty_like(result))))
            seen.add(id(result))
        return tuple(found)


def is_clone(tensor: torch.Tensor) -> bool:
    """Whether nothing has written to a cloned tensor since."""
    return tensor.grad_fn is not None and tensor.grad_fn.name() == "CloneBackward0"


class Differentiables(Operators):
    """The distinct operators of a graph. decompositions: used for tracing."""

    def __init__(
        self, gm: torch.fx.GraphModule, mode: Any, decompositions: Mapping[Any, Callable[..., Any]]
    ) -> None:
        self.mode, self.decompositions = mode, dict(decompositions)
        self.constants: dict[str, Any] = {}
        super().__init__(gm.graph)
        self.trace_all()

    def extra_key(self, tensors: Sequence[FakeTensor]) -> Any:
        return self.grad, tuple(tensor.requires_grad for tensor in tensors)

    def operator(self, node: torch.fx.Node, tensors: list[FakeTensor]) -> Operator:
        if not is_traceable(node):
            raise NeedsWholeTrace
        wanted = (
            tuple(number for number, tensor in enumerate(tensors) if tensor.requires_grad)
            if self.grad
            else ()
        )
        return Differentiable(node, tensors, wanted=wanted, grad=self.grad)

    def trace_all(self) -> None:
        """Traces every operator with its backward pass, in one run."""
        with self.tracing_on_fakes():
            different = [
                (found, found.places(self.sizes))
                for found in self.different
                if isinstance(found, Differentiable)
            ]
            traced = TracedOperators(self, different)
        for (found, places), part in zip(different, traced.parts, strict=True):
            found.inputs = part.inputs
            found.nodes = part.forward
            found.outputs = part.outputs
            found.written = part.written
            if part.written and isinstance(found.node.target, CustomFunction):
                raise NeedsWholeTrace  # its backward pass may read what was there before
            if places:
                found.backward[places] = part.backward
            owned = {*part.forward, *part.backward.nodes}
            traced.left -= owned
        if any(node.op.startswith("call") and node.is_impure() for node in traced.left):
            raise NeedsWholeTrace

    def backward(self, found: Differentiable, places: Places) -> BackwardPass:
        """An operator's backward pass, for gradients with the layouts `places`."""
        if places not in found.backward:
            results, inner = found.results, list(found.outputs)
            with self.tracing_on_fakes():
                (part,) = TracedOperators(self, [(found, places)]).parts
            found.results, found.outputs = results, inner
            found.backward[places] = join_passes(part, found)
        return found.backward[places]

    @contextmanager
    def tracing_on_fakes(self) -> Iterator[None]:
        """The state in which operators are traced: fake tensors, gradients on, one thread."""
        with (
            self.mode,
            enable_python_dispatcher(),
            torch.enable_grad(),
            torch.autograd.set_multithreading_enabled(False),
        ):
            yield

    def constant(self, value: Any) -> str:
        """The name of a constant in graphs."""
        if not isinstance(value, torch.Tensor):
            raise NeedsWholeTrace
        self.constants[name := f"constant_{len(self.constants)}"] = value
        return name

    def trace(self, run: Callable[..., Any], inputs: Sequence[Any]) -> torch.fx.GraphModule:
        """A functional graph of the operators that `run` calls."""
        traced = trace_operators(run, inputs, self.decompositions, sizes=True)
        if any(writes_arguments(node) for node in traced.graph.nodes):
            run_again = torch.fx.Interpreter(traced).run
            with torch.no_grad():
                plain = [
                    item.detach() if isinstance(item, torch.Tensor) else item for item in inputs
                ]
                traced = trace_operators(
                    without_writes(run_again), plain, self.decompositions, sizes=True
                )
        return traced


def is_traceable(node: torch.fx.Node) -> bool:
    """Whether an operator and its backward pass can be traced apart from the rest of the graph: one
    of torch's, or an autograd.Function of the program that calls only such."""
    target = node.target
    if type(target) is CustomFunction:
        _, *inside = inner_nodes(node)
        return bool(inside) and not target.marks.dirty and all(map(is_inner_traceable, inside))
    return (
        not isinstance(target, CustomFunction | Checkpointed)
        and not is_foreign(node)
        and target is not torch.autograd.grad
    )


def is_inner_traceable(node: torch.fx.Node) -> bool:
    """Whether a node of an autograd.Function can be traced with it; one that switches a mode
    cannot."""
    switches = node.op.startswith("call") and not node.all_input_nodes and fake_of(node) is None
    return is_traceable(node) and not switches


def has_no_derivative(result: torch.Tensor) -> bool:
    """Whether torch has no derivative of the operator that gave a result, as of `bernoulli`."""
    return type(result.grad_fn).__name__ == "NotImplemented"


def writes_arguments(node: torch.fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


@dataclass
class OperatorPart:
    """One operator's nodes in a trace."""

    inputs: list[torch.fx.Node]
    forward: list[torch.fx.Node]
    outputs: list[torch.fx.Node]
    written: dict[int, torch.fx.Node]
    backward: BackwardPass


class TracedOperators:
    """Operators traced in one run. `left`: nodes that belong to none of `parts`."""

    def __init__(
        self, to: Differentiables, wanted: Sequence[tuple[Differentiable, Places]]
    ) -> None:
        self.operators, self.wanted = to, wanted
        # returned tensors, results among them; inputs that got a gradient
        self.counts: list[tuple[int, int, list[int]]] = []
        inputs = [
            tensor
            for found, places in wanted
            for tensor in (*found.inputs_like(), *(tensor_with_window(seen) for _, seen in places))
        ]
        traced = to.trace(self.run, [*inputs, *to.sizes.values()])
        graph = traced.graph
        for node in graph.nodes:
            if node.op == "get_attr":
                node.target = to.constant(getattr(traced, str(node.target)))
            elif node.target in (ATEN.detach.default, ATEN.alias.default):
                node.replace_all_uses_with(node.args[0])
        places = {node: place for place, node in enumerate(graph.nodes)}
        self.undo_clones(iter(graph.find_nodes(op="placeholder")), places)
        placeholders, results = (
            iter(graph.find_nodes(op="placeholder")),
            iter(graph.output_node().args[0]),  # type: ignore[arg-type]
        )
        self.left = set(graph.nodes)
        self.parts = [
            self.part(found, at, counts, placeholders, results, places)
            for (found, at), counts in zip(wanted, self.counts, strict=True)
        ]

    def undo_clones(
        self, placeholders: Iterator[torch.fx.Node], order: Mapping[torch.fx.Node, int]
    ) -> None:
        """Removes the copies of inputs that operators wrote to; nothing in the graph writes any
        more."""
        for (found, places), (everything, count, _) in zip(self.wanted, self.counts, strict=True):
            inputs = [next(placeholders) for _ in (*found.tensors, *places)][: len(found.tensors)]
            for node in inputs if everything > count else ():
                first = min(node.users, key=order.__getitem__)
                if first.target is not ATEN.clone.default:
                    raise NeedsWholeTrace
                first.replace_all_uses_with(node)
                if window_of(first.meta["val"]) == window_of(node.meta["val"]):
                    node.meta["val"] = first.meta["val"]  # views were traced on the copy's memory

    def run(self, *inputs: Any) -> list[torch.Tensor]:
        """Calls every operator and computes gradients."""
        given = iter(inputs)
        sizes = self.operators.last_inputs_as_sizes(inputs)
        made: list[torch.Tensor] = []
        self.counts = []  # it may run more than once
        for found, places in self.wanted:
            own = [next(given) for _ in found.tensors]
            results, count = found.forward(own, sizes)
            tangents = [next(given) for _ in places]
            gradients: Sequence[torch.Tensor | None] = ()
            if places:
                with torch._C._DisableAutocast():
                    ends, starts = (
                        [results[number] for number, _ in places],
                        [own[number] for number in found.wanted],
                    )
                    if any(map(has_no_derivative, ends)):
                        raise NeedsWholeTrace  # which knows whether a gradient gets there
                    gradients = torch.autograd.grad(ends, starts, tangents, allow_unused=True)
            got = [
                number
                for number, gradient in zip(found.wanted, gradients, strict=False)
                if gradient is not None
            ]
            self.counts.append((len(results), count, got))
            made += [
                *(result.detach() for result in results),
                *(gradient for gradient in gradients if gradient is not None),
            ]
        return made

    def part(
        self,
        found: Differentiable,
        places: Places,
        counts: tuple[int, int, list[int]],
        placeholders: Any,
        results: Any,
        order: Mapping[torch.fx.Node, int],
    ) -> OperatorPart:
        """Removes one operator's nodes from the graph and returns them."""
        everything, count, got = counts
        inputs = [next(placeholders) for _ in found.tensors]
        tangents = {number: next(placeholders) for number, _ in places}
        outputs = [next(results) for _ in range(everything)]
        gradients = {number: next(results) for number in got}
        if not all(isinstance(node, torch.fx.Node) for node in (*outputs, *gradients.values())):
            raise NeedsWholeTrace
        forward, backward = self.split_by_need(
            [*outputs, *gradients.values()], {*inputs}, {*tangents.values()}, order
        )
        if not {*backward, *tangents.values()}.isdisjoint(outputs):
            raise NeedsWholeTrace
        afterwards = zip(inputs, outputs[count:], strict=False)
        written = {
            number: after
            for number, (before, after) in enumerate(afterwards)
            if after is not before
        }
        return OperatorPart(
            inputs, forward, outputs, written, BackwardPass(tangents, backward, gradients)
        )

    def split_by_need(
        self,
        roots: list[torch.fx.Node],
        inputs: set[torch.fx.Node],
        late: set[torch.fx.Node],
        order: Mapping[torch.fx.Node, int],
    ) -> tuple[list[torch.fx.Node], list[torch.fx.Node]]:
        """The nodes from which `roots` are computed: those that do not depend on `late`, and the
        others."""
        forward, backward = [], []
        for node in sorted(ancestors_of(roots) - inputs - late, key=order.__getitem__):
            if is_varying_size(node) or late.isdisjoint(node.all_input_nodes):
                forward.append(node)
            else:
                backward.append(node)
                late.add(node)
        return forward, backward


def join_passes(part: OperatorPart, found: Differentiable) -> BackwardPass:
    """A backward pass that was traced again, expressed with the nodes of the first forward pass."""
    same = dict(zip(part.inputs, found.inputs, strict=True))
    sizes = {comparable(node.meta["val"]): node for node in found.nodes if is_varying_size(node)}
    same |= {
        node: sizes[comparable(node.meta["val"])]
        for node in part.forward
        if is_varying_size(node) and comparable(node.meta["val"]) in sizes
    }
    known: dict[Any, list[torch.fx.Node]] = {}
    for node in found.nodes:
        known.setdefault(operator_key(node, {}), []).append(node)
    more: list[torch.fx.Node] = []
    for node in part.forward:
        if is_varying_size(node):
            more += [] if node in same else [node]
            continue
        others = (
            known.get(operator_key(node, same))
            if not set(more).intersection(node.all_input_nodes)
            else None
        )
        if others:
            same[node] = others.pop(0) if len(others) > 1 else others[0]
        elif draws_random_numbers(node):
            raise NeedsWholeTrace
        else:
            more.append(node)
    before = part.backward
    return BackwardPass(before.tangents, [*more, *before.nodes], before.gradients, same)


def operator_key(node: torch.fx.Node, same: Mapping[torch.fx.Node, torch.fx.Node]) -> Any:
    args, kwargs = torch.fx.node.map_arg(
        (node.args, node.kwargs), lambda other: same.get(other, other)
    )
    return node.target, str(args), str(kwargs)
