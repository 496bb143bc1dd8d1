"""The joint graph: the ATen operators of a captured graph, followed by those of its backward pass.

It is assembled from copies of the graphs that each distinct operator was traced to
(traced_operators.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor

from ..graph.copies import INPUT, Copy, template
from ..graph.gradient_history import needs_gradient, values_that_eager_frees
from ..graph.memory import memory_of
from ..graph.passes.by_operator import AssembledGraph, Operator
from ..graph.passes.captured_nodes import NeedsWholeTrace, Window, example, size_of, window_of
from ..graph.passes.symbolic_sizes import varies
from .traced_operators import ATEN, Differentiable, Differentiables


class JointGraph(AssembledGraph):
    """`forward`: nodes of the forward pass, inputs first. `writes`: for each written input, its new
    value. `freed`: inputs and results that eager does not save. `tangents`: for a result's number,
    the node that stands for its gradient. `gradients`: for each input that a backward pass reaches,
    its gradient."""

    def __init__(self, captured: torch.fx.Graph, operators: Differentiables) -> None:
        self.operators = operators
        self.calls: list[tuple[Differentiable, dict[torch.fx.Node, Copy]]] = []
        self.sums: dict[tuple[Window, Window], torch.fx.Node] = {}
        super().__init__(captured, operators)
        self.close(captured, self.inputs)

    def copy(
        self, node: torch.fx.Node, found: Operator, tensors: Sequence[FakeTensor]
    ) -> dict[torch.fx.Node, Copy]:
        copies = super().copy(node, found, tensors)
        assert isinstance(found, Differentiable)
        for number in set(found.written).difference(found.wanted):
            if any(
                example(other).requires_grad for other in self.shown[memory_of(tensors[number])]
            ):
                raise NeedsWholeTrace  # a write that autograd does not see: gradients flow past it
        if found.wanted:
            self.calls.append((found, copies))
        return copies

    def close(self, captured: torch.fx.Graph, inputs: Mapping[torch.fx.Node, Copy]) -> None:
        """Ends the forward pass and appends the backward pass."""
        self.writes = {
            made: self.values[node]
            for node, made in inputs.items()
            if self.values[node] is not made
        }
        check_writes(inputs, {node for node, made in inputs.items() if made in self.writes})
        ends = separate_results(captured, inputs)
        self.results = [self.values[end] for end in ends]
        freed = values_that_eager_frees(captured)
        self.freed = [
            *(made for node, made in inputs.items() if node in freed),
            *(self.values[end] for end in ends if end in freed),
        ]
        self.forward = list(self.nodes)
        self.trains = [example(end).requires_grad for end in ends]
        self.tangents = {
            number: self.tangent(example(end))
            for number, end in enumerate(ends)
            if example(end).requires_grad
        }
        flowing = {self.results[number]: tangent for number, tangent in self.tangents.items()}
        self.backward(flowing)
        wanting = [made for node, made in inputs.items() if needs_gradient(node)]
        self.gradients = {made: flowing[made] for made in wanting if made in flowing}

    def tangent(self, like: torch.Tensor) -> Copy:
        with self.operators.tracing_on_fakes(), torch.no_grad():
            made = torch.empty_like(like)
        if varies(like) and window_of(made)[:-1] != window_of(like)[:-1]:
            raise NeedsWholeTrace  # a call does not know this layout
        return self.add(INPUT, (), {"val": made}, f"gradient{len(self.nodes)}")

    def backward(self, flowing: dict[Copy, Copy]) -> None:
        """Appends the backward passes of all calls, the last call first, as eager does. flowing:
        gradients by the value that they belong to."""
        self.flowing = flowing
        for found, copies in reversed(self.calls):
            given: dict[int, Copy] = {}
            inputs = {copies[node] for node in found.inputs}
            for number, output in enumerate(found.outputs):
                if copies[output] in flowing and copies[output] not in inputs:
                    gradient = flowing.pop(copies[output])
                    if number in found.reaching:
                        given[number] = gradient
            if given:
                self.append_backward(found, copies, given)

    def append_backward(
        self, found: Differentiable, copies: dict[torch.fx.Node, Copy], given: Mapping[int, Copy]
    ) -> None:
        """Appends one call's backward pass."""
        places = tuple(
            (number, window_of(node.meta["val"])) for number, node in sorted(given.items())
        )
        derived = self.operators.backward(found, places)
        own = (
            {old: copies[first] for old, first in derived.same.items()}
            if derived.same
            else dict(copies)
        )
        own |= {tangent: given[number] for number, tangent in derived.tangents.items()}
        self.graft(derived.nodes, own)
        for number, gradient in derived.gradients.items():
            value, coming = copies[found.inputs[number]], own[gradient]
            if value in self.flowing:
                coming = self.sum(self.flowing[value], coming)
            self.flowing[value] = coming

    def sum(self, one: Copy, other: Copy) -> Copy:
        key = window_of(one.meta["val"]), window_of(other.meta["val"])
        if key not in self.sums:
            with self.operators.tracing_on_fakes(), torch.no_grad():
                self.sums[key] = template(ATEN.add.Tensor, "one", "other")
                self.sums[key].meta = {"val": one.meta["val"] + other.meta["val"]}
        source = self.sums[key]
        return self.add(source, (one, other), {"val": source.meta["val"], "memory": [object()]})


def check_writes(inputs: Iterable[torch.fx.Node], written: Set[torch.fx.Node]) -> None:
    """Raises NeedsWholeTrace where the operators do not show all writes into inputs, or autograd
    sees one."""
    mutated = {node for node in inputs if node.meta.get("mutated", False)}
    if not mutated <= written or any(map(needs_gradient, written)):
        raise NeedsWholeTrace


def separate_results(
    captured: torch.fx.Graph, inputs: Iterable[torch.fx.Node]
) -> list[torch.fx.Node]:
    """The results of a captured graph. Raises NeedsWholeTrace unless each is a tensor with its own
    memory: one that shares memory is created again as a view after the graph."""
    ends: Any = captured.output_node().args[0]
    if not all(
        isinstance(end, torch.fx.Node) and isinstance(example(end), torch.Tensor) for end in ends
    ):
        raise NeedsWholeTrace
    whose = {memory_of(example(node)) for node in inputs if size_of(node) is None}
    own = {memory_of(example(node)) for node in ends}
    if len(own) != len(ends) or not whose.isdisjoint(own):
        raise NeedsWholeTrace
    return list(ends)
