"""The guards of an entry: those of the capture, those on dynamic sizes, and which inputs must be
distinct objects."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import torch
import torch.fx

from ...guards.guard import Guard, Kind
from ..tracing.capture import Capture
from ..tracing.graph_inputs import GraphInput
from ..tracing.input_memory import InputMemory
from .active_modes import DUAL_LEVEL


def entry_guards(
    capture: Capture, used: Collection[torch.fx.Node], memory: InputMemory
) -> list[Guard]:
    """All guards of a capture. used: the placeholders that the graph uses. memory: how the inputs
    overlap. Distinct objects must stay distinct: the tensors that the graph takes, those inside of
    wrappers, and all objects of a type of which the capture changed one."""
    # adds guards on identity to the capture's
    distinct = capture.trace.objects.distinct_groups(capture.trace.graph.inputs)
    guards = [*capture.trace.guards, Guard(DUAL_LEVEL, Kind.EQUALS, -1)]
    if capture.trace.symbols.exist:
        guards = [*with_symbols(capture, guards), *capture.trace.symbols.shapes.relied_on.guards()]
    taken = set(used)
    inputs = [
        item
        for item in capture.trace.graph.inputs
        if item.value.node in taken and isinstance(item, GraphInput)
    ]
    mutated = any(item.is_mutated for item in inputs)
    tensors = [
        item.source for item in inputs if mutated or not isinstance(item.real, torch.nn.Parameter)
    ]
    parts = capture.trace.graph.fakes.distinct_parts()
    guards += [
        Guard(first, Kind.DISTINCT, tuple(others))
        for first, *others in filter(None, (tensors, parts, *distinct))
        if others
    ]
    return [*guards, *memory.guards]


def with_symbols(capture: Capture, guards: list[Guard]) -> list[Guard]:
    """The guards; those on tensors leave symbolic sizes and strides open."""
    shapes = capture.trace.symbols.shapes
    graph = capture.trace.graph
    fakes = dict(graph.fakes.parts)
    fakes |= {item.source: item.value.fake for item in graph.inputs if isinstance(item, GraphInput)}

    def with_open_sizes(guard: Guard) -> Guard:
        fake = fakes.get(guard.source) if guard.kind is Kind.TENSOR else None
        return guard if fake is None else replace(guard, expected=shapes.spec(guard.expected, fake))

    return list(map(with_open_sizes, guards))
