"""Lowers equal nodes once: later ones reuse the first one's kernels on their own buffers. Nodes
that also have the same operands are merged (common subexpression elimination)."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import replace
from typing import Any

import torch
import torch.fx

from ....records import record
from ...graph.copies import AnyNode, Copies, Copy
from ...graph.memory import memories, results_of
from ..ir.index import Index
from ..ir.patterns import Patterns
from ..ir.program import Bound, Buffer, Kernel, Program, View, map_views

PLAIN = (
    Index,
    int,
    bool,
    str,
    type(None),
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
)


class NotRepeated(Exception):
    """Raised for a node that must be lowered each time, although an equal one was lowered
    before."""


@record
class LoweredNode:
    """The translation of a node: new buffers, kernels, and its result."""

    buffers: tuple[Buffer, ...]
    kernels: tuple[Bound, ...]
    result: Any


class LoweringCache:
    """The lowered nodes of a program, by the properties that determine a lowering. `results`: for
    nodes with the same operands. `escaping`: memory of returned tensors, each of which must be
    separate. exact: nodes whose results are rounded as eager's."""

    def __init__(
        self,
        graph: torch.fx.Graph | Copies,
        program: Program,
        patterns: Patterns,
        exact: Set[AnyNode],
    ) -> None:
        self.program, self.patterns, self.exact = program, patterns, exact
        self.kinds: dict[Any, int] = {}  # numbers of likenesses
        self.known: dict[int, tuple[tuple[str, ...], LoweredNode]] = {}
        self.results: dict[tuple[int, tuple[str, ...]], Any] = {}
        self.escaping = {
            memory for node in graph.output_node().all_input_nodes for memory in memories(node)
        }

    def lower(self, node: AnyNode, operands: Any, make: Callable[[], Any]) -> Any:
        """The node's result. operands: its arguments; of a copy, what its inputs became. make: adds
        to the program what it becomes."""
        numbers: dict[str, int] = {}
        try:
            key = self.likeness(node), without_buffer_names(operands, numbers)
        except NotRepeated:
            return make()
        kind, names = self.kinds.setdefault(key, len(self.kinds)), tuple(numbers)
        alone = (
            torch.Tag.nondeterministic_seeded in node.target.tags  # type: ignore[union-attr]
            or not self.escaping.isdisjoint(memories(node))
        )
        if not alone and (kind, names) in self.results:
            return self.results[kind, names]
        if kind in self.known:
            others, lowered = self.known[kind]
            result = self.repeat(node, lowered, dict(zip(others, names, strict=True)))
        else:
            result = self.first(kind, names, make)
        if kind in self.known:  # an operator that is called is called each time
            self.results[kind, names] = result
        return result

    def likeness(self, node: AnyNode) -> Any:
        """The properties that must be equal for two nodes, besides their arguments."""
        if isinstance(node, Copy):
            return node.source, node in self.exact
        return (
            node.target,
            node in self.exact,
            *map(shape, results_of(node)),
            *(shape(item) for other in node.all_input_nodes for item in results_of(other)),
        )

    def first(self, kind: int, names: tuple[str, ...], make: Callable[[], Any]) -> Any:
        """The result of a node that no other was equal to."""
        steps, buffers = len(self.program.steps), len(self.program.buffers)
        result = make()
        added = self.program.steps[steps:]
        if all(isinstance(step, Kernel) for step in added):
            bound = [self.patterns.bind(step) for step in added if isinstance(step, Kernel)]
            self.program.steps[steps:] = bound
            new = tuple([*self.program.buffers.values()][buffers:])
            own = {*names, *(buffer.name for buffer in new)}
            if all(own.issuperset(kernel.names) for kernel in bound):
                self.known[kind] = names, LoweredNode(new, tuple(bound), result)
        return result

    def repeat(self, node: AnyNode, lowered: LoweredNode, names: dict[str, str]) -> Any:
        for buffer in lowered.buffers:
            name = names[buffer.name] = self.program.unused_name(node.name)
            self.program.buffers[name] = replace(buffer, name=name)
        self.program.steps += (
            Bound(kernel.pattern, tuple(map(names.__getitem__, kernel.names)))
            for kernel in lowered.kernels
        )
        return map_views(lowered.result, lambda view: view.on(names[view.buffer]))


def shape(value: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        raise NotRepeated
    found = (value.dtype, value.device, value.dim(), *value.shape, *value.stride())
    if any(isinstance(item, torch.SymInt) for item in found):
        raise NotRepeated
    return found


def without_buffer_names(tree: Any, names: dict[str, int]) -> Any:
    """Arguments without the names of their buffers, which are numbered in `names`."""
    if isinstance(tree, View):
        return (
            names.setdefault(tree.buffer, len(names)),
            tree.size,
            tree.stride,
            tree.offset,
            tree.dtype,
            tree.device,
        )
    if isinstance(tree, (tuple, list)):
        return (
            list if isinstance(tree, list) else tuple,
            *(without_buffer_names(item, names) for item in tree),
        )
    if isinstance(tree, dict):
        return (dict, *((key, without_buffer_names(item, names)) for key, item in tree.items()))
    if isinstance(tree, PLAIN):
        return type(tree), tree
    if isinstance(tree, float):
        return float, repr(tree)
    raise NotRepeated
