"""Emits code that pushes values. How each family is made is its own `reconstruct`; here is what
they have in common: paths, constants, temporaries."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

import torch.fx

from ...guards.source import SequenceItem, SlotSource, Source
from ..pycode.code_builder import CodeBuilder
from ..values.base import CannotReconstruct, Value
from ..values.containers.builtin_container import BuiltinContainer
from ..values.tensor.tensor import TensorMethod


class Reconstructor:
    """The Emitter of values. Each object is made once and kept in a temporary, so that identities
    stay what they were."""

    def __init__(self, builder: CodeBuilder, globals_: dict[str, Any]) -> None:
        self.builder, self.globals = builder, globals_
        self.lifted: dict[Source, int] = {}
        self.outputs: dict[torch.fx.Node, int] = {}  # the temporaries that hold the graph's outputs
        self.results: list[int] = []  # the same, as the graph returns them
        self.temps: dict[int, int] = {}
        self._making: set[int] = set()
        self._kept: list[Value] = []  # their ids stay taken while temporaries refer to them

    # values

    def push(self, value: Value) -> None:
        """Emits code that pushes the object of a value: a temporary that holds it, its source, or
        the object made anew and kept in a temporary. Raises CannotReconstruct, for a cycle too."""
        if isinstance(value, BuiltinContainer) and value.outer is not None:
            value = value.outer
        key = id(value)
        temp = self.temps.get(key)
        if temp is not None:
            self.builder.load_slot(temp)
            return
        if value.is_code_constant:
            value.reconstruct(self)
            return
        self._kept.append(value)
        if key in self._making:
            raise CannotReconstruct(value)
        self._making.add(key)
        if value.source is not None:
            self.load(value.source)
        else:
            value.reconstruct(self)
        self._making.discard(key)
        if key not in self.temps:
            self.keep(value)

    def push_all(self, values: Iterable[Value]) -> None:
        for value in values:
            self.push(value)

    def push_literal(self, obj: Any) -> None:
        """Pushes an object that code holds. A string that is not interned, and that CPython would
        intern among constants, is put into a list, so that it stays the same object."""
        if (
            type(obj) is str
            and obj.isascii()
            and obj.replace("_", "a").isalnum()
            and sys.intern(obj) is not obj
        ):
            self.builder.load_const([obj])
            self.builder.load_const(0)
            self.builder.subscr()
        else:
            self.builder.load_const(obj)

    def push_output(self, value: Value, node: torch.fx.Node) -> None:
        temp = self.outputs.get(node)
        if temp is None:
            temp = self.outputs[node] = self.builder.temp()
            self.results.append(temp)
        self.temps[id(value)] = temp
        self.builder.load_slot(temp)

    def push_method(self, value: TensorMethod) -> None:
        """Pushes a method to be called, as the two items under the arguments of CALL."""
        self.push(value.receiver)
        self.builder.load_method(value.name)

    def load(self, source: Source) -> None:
        """Pushes the object at the end of a path, as it was when the guards ran."""
        b = self.builder
        if (
            isinstance(source, SlotSource)
            and not b.takes_state
            and source.index not in b.decoded.cells
        ):
            b.load_slot(source.index)  # a cell may hold something else by now
        elif (
            isinstance(source, SequenceItem) and b.takes_state and isinstance(source.of, SlotSource)
        ):
            b.load_state()
            b.load_const(source.index)
            b.subscr()
        else:
            index = self.lifted.setdefault(source, len(self.lifted))
            b.load_lifted()
            b.load_const(index)
            b.subscr()

    # new containers

    def push_list(self, items: list[Value]) -> None:
        self.push_all(items)
        self.builder.build_list(len(items))

    def push_tuple(self, items: list[Value]) -> None:
        self.push_all(items)
        self.builder.build_tuple(len(items))

    def push_dict(self, pairs: Iterable[tuple[Value, Value]]) -> None:
        listed = list(pairs)
        for pair in listed:
            self.push_all(pair)
        self.builder.build_map(len(listed))

    def push_keywords(self, items: dict[str, Value]) -> None:
        for name, item in items.items():
            self.builder.load_const(name)
            self.push(item)
        self.builder.build_map(len(items))

    # the object on top of the stack

    def keep(self, value: Value) -> None:
        temp = self.temps[id(value)] = self.builder.temp()
        self.builder.copy(1)
        self.builder.store_slot(temp)

    def give_attributes(self, value: Value, attributes: dict[str, Value]) -> None:
        self.keep(value)
        for name, attribute in attributes.items():
            self.store_on_top(name, attribute)

    def store_on_top(self, name: str, value: Value) -> None:
        self.builder.copy(1)
        self.push(value)
        self.builder.swap(2)
        self.builder.store_attr(name)

    def run_on_top(self, callee: Any, *arguments: Any) -> None:
        b = self.builder
        temp = b.temp()
        b.copy(1)
        b.store_slot(temp)
        self.run(callee, [lambda: b.load_slot(temp), *map(self.const, arguments)])
        b.delete_slot(temp)

    # calls

    def const(self, obj: Any) -> Callable[[], None]:
        return lambda: self.builder.load_const(obj)

    def call(
        self,
        callee: Any,
        arguments: Iterable[Value | Callable[[], None]],
        names: tuple[str, ...] = (),
    ) -> None:
        self.builder.load_callee(callee)
        listed = list(arguments)
        for argument in listed:
            if isinstance(argument, Value):
                self.push(argument)
            else:
                argument()
        self.builder.call(len(listed), names)

    def run(self, callee: Any, arguments: Iterable[Value | Callable[[], None]]) -> None:
        self.call(callee, arguments)
        self.builder.pop_top()
