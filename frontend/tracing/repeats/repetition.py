"""Repetition: a recorded call of one module, repeated for another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch.fx

from ....guards.guard import Kind
from ....guards.source import Source
from ...values.base import Value
from ...values.containers.sequence import TupleValue
from ...values.functions.cell import CellValue
from ...values.functions.function import FunctionValue
from ...values.objects.attribute_storage import instance_dict
from ...values.objects.nn_module import ModuleValue
from ...values.objects.object_attributes import ObjectAttributes
from ...values.tensor.tensor import TensorValue
from ..graph_inputs import GraphInput
from ..sizes.symbolic_inputs import SymbolicInputs
from ..trace import Trace
from .arguments import Arguments, metadata
from .moved_guards import MovedGuards
from .moved_paths import CannotMove, MovedPaths
from .recorded_call import RecordedCall, metadata_of

# whether a number or text varies, by its type
VARIES: dict[type, Callable[[SymbolicInputs, Source, Any], bool]] = {
    int: SymbolicInputs.is_symbolic,
    float: SymbolicInputs.is_symbolic,
    str: SymbolicInputs.text_varies,
    tuple: SymbolicInputs.tuple_varies,
}
UNREMEMBERED = FunctionValue | CellValue  # each path to one has a value of its own


class Repetition:
    """Each step raises CannotMove where the second call could be another one."""

    def __init__(
        self,
        tx: Trace,
        call: RecordedCall,
        guards: MovedGuards,
        module: ModuleValue,
        arguments: Arguments,
    ) -> None:
        self._tx, self._call, self._guards = tx, call, guards
        self._moved = MovedPaths(guards.root, module.known_source, module.real)
        # what stands for the nodes of the recorded call, and for what it was given
        self._nodes = dict(zip(call.arguments.made, arguments.made, strict=True))

    def run(self) -> Value:
        found = list(self._guards.hold(self._moved))
        same = list(self._pair_objects())
        self._expect_numbers()
        self._pair_inputs()
        self._add_nodes()
        result = self._result(self._call.result)
        for guard, source, expected in found:
            self._tx.guards.repeat(guard, source, expected)
        for source in same:
            self._tx.guards.add(self._moved.path(source), Kind.SAME, source)
        self._count()
        return result

    def _pair_objects(self) -> Iterator[Source]:
        """Checks that the objects below the second module are as many as those below the first
        one, and known by no other path. Yields the paths to those that both share."""
        seen: dict[int, Source] = {}
        firsts = list(self._known_below())
        ids = {id(real) for _, real, _ in firsts}
        for source, real, value in firsts:
            other = self._moved.object(source)
            if seen.setdefault(id(other), source) != source:
                raise CannotMove(source.name)
            if other is real:
                yield source
                continue
            known = self._known(other)
            if known in self._tx.effects.changed:
                raise CannotMove(source.name)
            if id(other) in ids or (
                known is not None and known.source != self._moved.path(source)
            ):
                raise CannotMove(source.name)
            if isinstance(value, ObjectAttributes):
                one, two = instance_dict(real), instance_dict(other)
                if (one or {}).keys() != (two or {}).keys():
                    raise CannotMove(source.name)

    def _known_below(self) -> Iterator[tuple[Source, Any, Value]]:
        for real, value in self._tx.objects.entries():
            below = value.source is not None and value.source in self._guards.below
            if below and not isinstance(value, UNREMEMBERED):
                yield value.known_source, real, value
        for item in self._inputs():
            yield item.source, item.real, item.value

    def _inputs(self) -> list[GraphInput]:
        return [
            item
            for item in self._tx.graph.inputs
            if isinstance(item, GraphInput) and item.source in self._guards.below
        ]

    def _known(self, real: Any) -> Value | None:
        return self._tx.objects.find(real) or self._tx.graph.input_of(real)

    def _expect_numbers(self) -> None:
        """Notes the numbers that the call is given, as numbers may differ in later calls."""
        symbols = self._tx.symbols
        for source, number in list(symbols.numbers.items()):
            if source in self._guards.below:
                varies = VARIES.get(type(number))
                if varies is None or varies(symbols, self._moved.path(source), number):
                    raise CannotMove(source.name)

    def _pair_inputs(self) -> None:
        for item in self._inputs():
            value = self._tx.wrap(self._moved.object(item.source), self._moved.path(item.source))
            if type(value) is not type(item.value) or metadata(value.fake) != metadata(
                item.value.fake
            ):
                raise CannotMove(item.source.name)
            self._nodes[item.node] = value.node

    def _add_nodes(self) -> None:
        graph, call = self._tx.graph, self._call
        outer = self._tx.frames.call_lines()
        position = 0
        while position < len(call.nodes):
            before = graph.mark()
            first = call.nodes[position]
            graph.again(first, self._nodes, (*call.inner_lines[first], *outer))
            for node in graph.nodes[before:]:
                first = call.nodes[position]
                if first.target != node.target or call.metadata[first] != metadata_of(node):
                    raise CannotMove(node.name)
                self._nodes[first] = node
                position += 1

    def _result(self, value: Value) -> Value:
        if isinstance(value, TupleValue):
            return TupleValue([self._result(item) for item in value.items])
        if isinstance(value, TensorValue):
            node = self._nodes.get(value.node, value.node)
            return value if node is value.node else self._tx.graph.value_of(node)
        return value

    def _count(self) -> None:
        tx, call = self._tx, self._call
        if call.told_after is not None:
            tx.frames.told_of_compiling = tx.work.instructions + call.told_after
        tx.work.instructions += call.instructions


