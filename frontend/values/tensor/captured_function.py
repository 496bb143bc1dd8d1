"""A function passed to one of torch's higher-order operators: interpreted once, and cut out of the
graph as a graph of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
import torch.fx

from ....backends.graph.extracted_calls import extract_subgraph
from ....backends.graph.memory import is_strided, memory_at
from ....backends.graph.mode_switches import switches_modes
from ....backends.graph.mutations import is_written
from ....errors import GraphBreak
from ..base import ObservedException, Value
from ..context import TraceContext
from .tensor import TensorValue
from .tensor_tree import TensorTree
from .traced_call import interpret_without_effects


@dataclass
class CapturedFunction:
    """A function, interpreted. operator: who calls it, as the user knows it. parameters: the nodes
    that stand for its arguments, where the operator calls it with tensors of its own. nodes: what
    it computes. result: what it returned."""

    operator: str
    parameters: Sequence[torch.fx.Node]
    nodes: Sequence[torch.fx.Node]
    result: TensorTree

    @property
    def outputs(self) -> list[torch.fx.Node]:
        return [leaf.node for leaf in self.result.leaves]

    def free_nodes(self) -> list[torch.fx.Node]:
        """The nodes of the outer graph that it uses, besides its parameters."""
        inside = {*self.nodes, *self.parameters}
        used = [other for node in self.nodes for other in node.all_input_nodes]
        return [node for node in dict.fromkeys((*used, *self.outputs)) if node not in inside]

    def graph_of(self, free: Sequence[torch.fx.Node]) -> torch.fx.GraphModule:
        """The function as a graph that takes its parameters, then the values of `free`. Raises
        GraphBreak where it writes into one of them, as torch forbids that."""
        inputs = (*self.parameters, *free)
        extracted = extract_subgraph(self.nodes, inputs, self.outputs).module
        placeholders = extracted.graph.find_nodes(op="placeholder")
        if any(is_strided(node) and is_written(node) for node in placeholders):
            raise self.refusal("it writes into a tensor that existed before")
        return extracted

    def check_results_are_new(self) -> None:
        """Raises GraphBreak where a result is on the memory of an argument, of another tensor from
        outside, or of another result, as torch forbids that."""
        outside = [memory_at(node) for node in (*self.parameters, *self.free_nodes())]
        results = [memory_at(node) for node in self.outputs]
        if len(set(results)) < len(results) or not set(results).isdisjoint(outside):
            raise self.refusal("a result shares memory with an argument or another result")

    def refusal(self, why: str) -> GraphBreak:
        return GraphBreak("higher-order", f"{self.operator}: {why}")


def capture_function(
    tx: TraceContext,
    operator: str,
    function: Value,
    args: list[Value],
    parameters: Iterable[TensorValue] = (),
) -> CapturedFunction:
    """Interprets function(*args). `parameters`: the stand-ins among the arguments. Raises
    GraphBreak, whose reason is that of the operator."""
    name = f"torch.{operator}" if hasattr(torch, operator) else operator
    start = tx.graph.mark()
    try:
        traced = interpret_without_effects(
            tx, args, torch.is_grad_enabled(), lambda: function.call(tx, args, {})
        )
        result = TensorTree(tx, traced.value)
    except GraphBreak as error:
        refused = GraphBreak("higher-order", f"{name}: {error.sentence}")
        refused.position = error.position
        refused.chain = error.chain
        raise refused from error
    except ObservedException as error:
        raise GraphBreak("higher-order", f"{name}: it raises {error.cls.__name__}") from None
    nodes = tx.graph.nodes[start:]
    made = CapturedFunction(name, [leaf.node for leaf in parameters], nodes, result)
    if any(map(switches_modes, nodes)):
        raise made.refusal("it switches one of torch's modes")
    return made


def free_values(tx: TraceContext, functions: Sequence[CapturedFunction]) -> list[Value]:
    """The values from outside that functions use, each once: they become operands."""
    found = dict.fromkeys(node for function in functions for node in function.free_nodes())
    return [tx.graph.value_of(node) for node in found]


def nodes_of(tx: TraceContext, values: Sequence[Value]) -> list[torch.fx.Node]:
    """The nodes of tensors and numbers."""
    return [tx.graph.argument(value)[0] for value in values]


def parameter(position: int) -> None:
    """Stands for an argument while a function is interpreted."""


def parameters_like(tx: TraceContext, examples: Sequence[torch.Tensor]) -> list[TensorValue]:
    """New tensors with the properties of others, to interpret a function with."""
    return [
        tx.graph.stand_in(parameter, position, example, same_layout=True)
        for position, example in enumerate(examples)
    ]


def check_alike(
    given: Sequence[TensorValue], made: Sequence[TensorValue], refusal: GraphBreak
) -> None:
    """Raises the refusal unless tensors have the properties of others."""
    if [properties(value.fake) for value in given] != [properties(value.fake) for value in made]:
        raise refusal


def properties(tensor: torch.Tensor) -> tuple[object, ...]:
    return tensor.dtype, tensor.device, tensor.layout, tuple(tensor.shape), tensor.stride()
