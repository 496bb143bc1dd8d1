"""The inputs of the graph under construction: tensors, numbers and generators."""

from __future__ import annotations

import math
from dataclasses import field
from typing import Any

import torch
import torch.fx

from ...backends.graph.fake_values import number_at_capture
from ...backends.graph.mutations import is_written
from ...backends.graph.wrappers import inner_tensors, is_wrapper
from ...guards.source import Source
from ...records import record
from ..values.tensor.symbolic_number import SymbolicNumber
from ..values.tensor.tensor import TensorValue


@record
class GraphInput:
    """A tensor that is an input of the graph: its path, the tensor, and the version of its fake at
    the start."""

    value: TensorValue
    source: Source
    real: torch.Tensor
    version: int
    # whether the graph with so many nodes, of which this is the last, writes to it
    _known: dict[tuple[torch.fx.Node, int], bool] = field(default_factory=dict, compare=False)

    @property
    def node(self) -> torch.fx.Node:
        return self.value.node

    @property
    def is_mutated(self) -> bool:
        """Whether the graph writes to it. torch does not count all writes, and none to tensors of
        inference mode."""
        fake = self.value.fake
        counts = not fake.is_inference()
        if counts and version_of(fake) != self.version:
            return True
        graph = self.node.graph
        state = graph._root.prev, len(graph.nodes)
        known = self._known.get(state)
        if known is None:
            found = fake.layout == torch.strided and is_written(self.node, for_sure=counts)
            known = self._known[state] = found
        return known

    @property
    def bytes_to_save(self) -> int | None:
        """The size of a copy from which the tensor could be restored after a write; None where a
        copy of its elements would not restore it."""
        fake = self.value.fake
        if type(self.value) is not TensorValue or fake.layout is not torch.strided:
            return None
        if fake.requires_grad or fake.is_inference() or not has_layout_of(fake, self.real):
            return None
        return int(number_of_elements(fake)) * fake.element_size()

    @property
    def example(self) -> torch.Tensor:
        """The example input for a backend: the tensor, or its fake where sizes are symbols."""
        return self.value.fake if is_symbolic(self.value.fake) else self.real


@record
class NumberInput:
    """A symbolic number that is an input of the graph."""

    value: SymbolicNumber
    source: Source
    real: Any = None
    is_mutated: bool = False
    bytes_to_save: int = 0

    @property
    def node(self) -> torch.fx.Node:
        assert self.value.node is not None
        return self.value.node

    @property
    def example(self) -> Any:
        return self.value.sym


@record
class GeneratorInput:
    """A torch.Generator of the program's that is an input of the graph."""

    node: torch.fx.Node
    source: Source
    real: torch.Generator
    is_mutated: bool = False
    bytes_to_save: int = 0

    @property
    def value(self) -> GeneratorInput:
        return self

    def python_type(self) -> type:
        return torch.Generator

    @property
    def example(self) -> torch.Generator:
        return self.real


def has_layout_of(fake: torch.Tensor, real: torch.Tensor) -> bool:
    """Whether a fake still has the sizes, strides and offset of the tensor in this call."""
    pairs = zip(
        (*fake.shape, *fake.stride(), fake.storage_offset()),
        (*real.shape, *real.stride(), real.storage_offset()),
        strict=False,
    )
    return fake.dim() == real.dim() and all(number_at_capture(one) == other for one, other in pairs)


def number_of_elements(fake: torch.Tensor) -> int:
    """The number of elements in this call, which is not relied on."""
    return math.prod(size for size in map(number_at_capture, fake.shape) if size is not None)


def is_symbolic(fake: torch.Tensor) -> bool:
    """Whether a size, a stride or the offset is a symbol, of a wrapper also one inside."""
    if is_wrapper(type(fake)) and any(map(is_symbolic, inner_tensors(fake))):
        return True
    return any(
        isinstance(number, torch.SymInt)
        for number in (*fake.shape, *fake.stride(), fake.storage_offset())
    )


def version_of(fake: torch.Tensor) -> int:
    """How often a fake was written into, -1 where torch does not count."""
    return -1 if fake.is_inference() else fake._version
