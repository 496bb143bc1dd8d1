"""Repetition: a recorded call of one module, repeated for another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch.fx

from ....guards.guard import Kind
from ....guards.source import Source
from ...values.base import Value
from ...values.containers.sequence import TupleValue
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
from .reachable_changes import leads_to_changed
from .recorded_call import RecordedCall, Step, metadata_of

# whether a number or text varies, by its type
VARIES: dict[type, Callable[[SymbolicInputs, Source, Any], bool]] = {
    int: SymbolicInputs.is_symbolic,
    float: SymbolicInputs.is_symbolic,
    str: SymbolicInputs.text_varies,
    tuple: SymbolicInputs.tuple_varies,
}


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
        self._require_unchanged()
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
        ids = {id(real) for _, real, _ in self._guards.objects}
        for source, real, value in self._guards.objects:
            other = self._moved.object(source)
            if seen.setdefault(id(other), source) != source:
                raise CannotMove(source.name)
            if other is real:
                yield source
                continue
            known = self._value_of(other)
            is_new = known is None or known.source == self._moved.path(source)
            if (
                id(other) in ids
                or not is_new
                or attribute_names(value, real) != attribute_names(value, other)
            ):
                raise CannotMove(source.name)

    def _require_unchanged(self) -> None:
        """Checks that the frame has changed nothing below the second module that guards speak
        of."""
        reals = (self._moved.object(source) for source, _, _ in self._guards.objects)
        known = [value for value in map(self._value_of, reals) if value is not None]
        if leads_to_changed(self._tx, known):
            raise CannotMove(self._guards.root.name)

    def _value_of(self, real: Any) -> Value | None:
        return self._tx.objects.find(real) or self._tx.graph.input_of(real)

    def _expect_numbers(self) -> None:
        """Notes the numbers that the call is given, as numbers may differ in later calls."""
        symbols = self._tx.symbols
        for source, number in self._guards.numbers:
            varies = VARIES.get(type(number))
            if varies is None or varies(symbols, self._moved.path(source), number):
                raise CannotMove(source.name)

    def _pair_inputs(self) -> None:
        tx = self._tx
        for item in self._guards.inputs:
            real, path = self._moved.object(item.source), self._moved.path(item.source)
            value: TensorValue | None = None
            if item.source in self._guards.described and self._value_of(real) is None:
                value = tx.graph.input_like(item, real, path)
            if value is None:
                value = self._wrap_input(item, real, path)
            self._nodes[item.node] = value.node

    def _wrap_input(self, item: GraphInput, real: Any, path: Source) -> TensorValue:
        value = self._tx.wrap(real, path)
        if type(value) is not type(item.value) or metadata(value.fake) != metadata(item.value.fake):
            raise CannotMove(item.source.name)
        return value

    def _add_nodes(self) -> None:
        """Adds copies of the recorded call's nodes. Raises CannotMove where one has another
        result, Unlike where the call cannot be repeated."""
        graph = self._tx.graph
        outer = self._tx.frames.call_lines()
        lines: dict[tuple[str, ...], tuple[str, ...]] = {}
        steps = iter(self._call.steps(graph.fake_mode))
        with graph.repeating():
            for step in steps:
                inner = step.inner_lines
                if inner is not None and inner not in lines:
                    lines[inner] = (*inner, *outer)
                line = None if inner is None else lines[inner]
                before = graph.mark()
                try:
                    graph.repeat_node(step.node, self._nodes, line, step.recipe)
                except Exception as error:  # torch's own, as everything else is known
                    raise CannotMove(step.node.name) from error
                if step.recipe is not None:
                    continue
                first, *parts = graph.nodes[before:]
                self._pair_node(step, first)
                for part in parts:
                    self._pair_node(next(steps, None), part)

    def _pair_node(self, step: Step | None, node: torch.fx.Node) -> None:
        if step is None or step.node.target != node.target or step.metadata != metadata_of(node):
            raise CannotMove(node.name)
        self._nodes[step.node] = node

    def _result(self, value: Value) -> Value:
        if isinstance(value, TupleValue):
            return TupleValue([self._result(item) for item in value.items])
        if isinstance(value, TensorValue):
            node = self._nodes.get(value.node, value.node)
            return value if node is value.node else self._tx.graph.value_of(node)
        return value

    def _count(self) -> None:
        tx, call = self._tx, self._call
        if call.is_compiling_after is not None:
            tx.frames.is_compiling_at = tx.work.instructions + call.is_compiling_after
        tx.work.instructions += call.instructions


def attribute_names(value: Value, real: Any) -> set[str]:
    """The names in an object's own dictionary, where its value stands for one with attributes."""
    return set(instance_dict(real) or ()) if isinstance(value, ObjectAttributes) else set()
