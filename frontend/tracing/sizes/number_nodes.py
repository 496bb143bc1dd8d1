"""Arithmetic that records itself: Python's operators on a RecordedNumber become nodes of the
graph."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Protocol

import torch.fx

from ...values.base import Value
from ...values.tensor.symbolic_number import SymbolicNumber


class NumberGraph(Protocol):
    """The graph's nodes for numbers (graph_builder.py)."""

    def number_input(self, value: SymbolicNumber) -> torch.fx.Node: ...
    def number_call(
        self, function: Callable[..., Any], operands: tuple[Any, ...], result: Any
    ) -> torch.fx.Node: ...
    def argument(self, value: Value) -> tuple[Any, Any]: ...


class NodeRecorder:
    """Adds a node to the graph for every operator applied to a RecordedNumber."""

    def __init__(self, graph: NumberGraph) -> None:
        self.graph = graph

    def call(self, function: Callable[..., Any], *operands: Any) -> RecordedNumber:
        nodes = tuple(o.node if isinstance(o, RecordedNumber) else o for o in operands)
        fakes = [n.meta["example_value"] if isinstance(n, torch.fx.Node) else n for n in nodes]
        return RecordedNumber(self, self.graph.number_call(function, nodes, function(*fakes)))


class RecordedNumber:
    """A number in the graph. Python's operators on it make further nodes."""

    def __init__(self, recording: NodeRecorder, node: torch.fx.Node) -> None:
        self.recording, self.node = recording, node

    @classmethod
    def __torch_function__(
        cls,
        function: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> RecordedNumber:
        """Torch's functions of numbers: sym_min, sym_max, sym_float."""
        recorded = next(arg for arg in args if isinstance(arg, RecordedNumber))
        return recorded.recording.call(function, *args)

    def __neg__(self) -> RecordedNumber:
        return self.recording.call(operator.neg, self)


def _operators() -> None:
    """Gives RecordedNumber the operators of numbers, each of which records its call."""
    reflected = ("add", "sub", "mul", "floordiv", "mod", "pow", "truediv")
    for name in (*reflected, "lt", "le", "gt", "ge", "eq", "ne"):
        function = getattr(operator, name)
        setattr(
            RecordedNumber,
            f"__{name}__",
            lambda self, other, function=function: self.recording.call(function, self, other),
        )
        if name not in reflected:
            continue
        setattr(
            RecordedNumber,
            f"__r{name}__",
            lambda self, other, function=function: self.recording.call(function, other, self),
        )


_operators()
