"""ObjectTable: which value stands for which existing object, so that every path to an object leads
to the same value."""

from __future__ import annotations

import collections
import sys
import types
from typing import Any

from ...errors import GraphBreak
from ...guards.guard import Kind
from ...guards.iterators import iterated_container
from ...guards.source import (
    AttrSource,
    DictItem,
    GlobalsSource,
    InstanceDict,
    IteratedContainer,
    ModuleSource,
    Source,
)
from ..values import operators
from ..values.base import LazyValue, Value
from ..values.constant import Constant, GivenLiteral
from ..values.containers.mapping import DictValue
from ..values.containers.sequence import TupleValue
from ..values.context import TraceContext
from ..values.functions.cell import CellValue
from ..values.functions.function import FunctionValue
from ..values.identity_key import IdentityKey
from ..values.iterators.existing_iterator import ExistingIterator
from ..values.objects.class_value import ClassValue
from ..values.objects.python_module import PythonModule
from ..values.objects.user_object import UserObject
from ..values.tensor.tensor import TensorValue
from ..values.wrap import wrap
from .graph_inputs import GeneratorInput, GraphInput, NumberInput
from .interpreter.frame_stack import FrameStack
from .released_objects import may_be_gone

CONTAINERS = (list, dict, set, bytearray, collections.deque)


class ObjectTable:
    """Wraps objects, remembers the mutable ones, and answers questions of identity, with the guards
    they need."""

    def __init__(self, tx: TraceContext, frames: FrameStack, function: types.FunctionType) -> None:
        self._tx = tx
        self._frames = frames
        self._root_globals = function.__globals__
        # by id: the object, kept alive, and its value
        self._values: dict[int, tuple[Any, Value]] = {}
        self._owners: dict[int, UserObject] = {}  # of instance dictionaries, by their ids
        # functions, classes and modules, by the id of the globals and the name
        self.loaded_globals: dict[tuple[int, str], Value] = {}
        # when a path last led to a known object, in instructions
        self.reached: dict[Value, int] = {}
        self.keys_by_identity = 0  # times that one was asked for
        # by type, ids of objects that were keys by their identity
        self._identity_keys: dict[type, set[int]] = {}
        self._globals_paths: dict[int, Source | None] = {}
        self.class_paths: dict[int, Source | None] = {}  # by id: a class may have no hash

    # values of objects

    def wrap(self, obj: Any, source: Source | None) -> Value:
        """The value of an object: guarded when it has a source, a literal of the program when it
        has none."""
        known = self._values.get(id(obj))
        if known is not None and not isinstance(known[1], FunctionValue | CellValue):
            value = known[1]
            self.reach(value)
            if source is not None and value.source is not None and value.source != source:
                self._tx.guards.add(source, Kind.SAME, value.source)
            return value
        owner = self._owners.get(id(obj))
        if owner is not None and source is not None:
            self._tx.guards.add(source, Kind.SAME, owner.dictionary_path)
            return owner.dictionary(self._tx)
        return wrap(self._tx, obj, source)

    def share_dictionary(self, owner: UserObject, own: dict[str, Any]) -> DictValue | None:
        """The value of an existing object's instance dictionary if that is known already: as one
        that the program reads, or as another object's. Otherwise notes whose it is."""
        found = self._owners.get(id(own)) or self.find(own)
        if found is None:
            self._owners[id(own)] = owner
            return None
        known = found.dictionary_path if isinstance(found, UserObject) else found.known_source
        self._tx.guards.add(owner.dictionary_path, Kind.SAME, known)
        shared = found.dictionary(self._tx) if isinstance(found, UserObject) else found
        assert isinstance(shared, DictValue)
        return shared

    def wrap_global(self, obj: Any, source: Source | None) -> Value:
        """Wraps an object of a namespace. A store by the traced program takes precedence."""
        stores = self._tx.effects.globals
        if stores and isinstance(source, DictItem):
            for (_, name), (where, value) in stores.items():
                if name == source.key and isinstance(where, dict) and where.get(name, self) is obj:
                    return value
        return self.wrap(obj, source)

    def wrap_held(self, obj: Any, source: Source | None) -> Value:
        """Wraps an object inside an existing one. Breaks for a container without a path, since
        changes would be made to a copy."""
        if source is None and isinstance(obj, CONTAINERS) and self.find(obj) is None:
            raise GraphBreak(
                "unsupported-value",
                f"a {type(obj).__name__} that no variable or attribute leads to",
            )
        return self.wrap(obj, source)

    def look(self, value: Value) -> Value:
        """The value itself, or what a LazyValue stands for."""
        if type(value) is LazyValue:
            return self.wrap_held(value.object, value.source)
        return value

    def reach(self, value: Value) -> None:
        """Notes that a path led to a known object."""
        self.reached[value] = self._tx.work.instructions

    def reached_since(self, instructions: int) -> list[Value]:
        """The known objects that paths have led to."""
        return [value for value, when in self.reached.items() if when > instructions]

    def entries(self) -> list[tuple[Any, Value]]:
        """The objects and the values that are associated with them."""
        return list(self._values.values())

    def remember(self, obj: Any, value: Value) -> Any:
        """Associates a mutable object with its value; returns the value."""
        self._values[id(obj)] = (obj, value)
        return value

    def find(self, obj: Any) -> Any:
        """The value that is associated with an object, or None."""
        found = self._values.get(id(obj))
        return found and found[1]

    def values(self) -> list[Value]:
        """All values that are associated with an object."""
        return [value for _, value in self._values.values()]

    def real_object(self, value: Value) -> Any:
        """The existing object that a value stands for; None where no path led to one."""
        if isinstance(value, ClassValue):
            return value.cls
        if isinstance(value, (TensorValue, FunctionValue, PythonModule)):
            return value.real
        return next((obj for obj, known in self._values.values() if known is value), None)

    def release_objects(self) -> None:
        self._values.clear()
        self._owners.clear()
        self.loaded_globals.clear()
        self.reached.clear()

    # identity

    def is_same(self, left: Value, right: Value) -> bool:
        """`left is right`. That two existing objects of one type are distinct is guarded."""
        guards = self._tx.guards
        if left.is_same(right):
            if (
                left is not right
                and left.source is not None
                and right.source is not None
                and left.source != right.source
                and may_be_two(left, right)
            ):
                guards.add(left.source, Kind.SAME, right.source)
            return True
        if (
            isinstance(left, TupleValue)
            and isinstance(right, TupleValue)
            and left.real is not None
            and right.real is not None
        ):
            one = left.real is right.real
            guards.add(
                left.source,
                Kind.SAME if one else Kind.DISTINCT,
                right.source if one else (right.source,),
            )
            return one
        alike = left.python_type() is right.python_type() and (
            not left.is_constant() or may_be_two(left, right)
        )
        if alike and left.source is not None and right.source is not None:
            guards.add(left.source, Kind.DISTINCT, (right.source,))
        return False

    def is_equal(self, left: Value, right: Value) -> bool:
        """`left is right or left == right`."""
        return operators.is_equal(self._tx, self.look(left), self.look(right))

    # operators of what containers hold, which containers do not import

    def compare(self, sign: str, left: Value, right: Value) -> Value:
        """left sign right, for a comparison."""
        return operators.compare(self._tx, sign, left, right)

    def operate(self, sign: str, left: Value, right: Value) -> Value:
        """left sign right, for an operator that may be in place."""
        return operators.binary(self._tx, sign, left, right)

    def identity_key(self, value: Value, real: Any) -> IdentityKey:
        """The dictionary key of an object that is equal only to itself. `real` is None for one that
        the trace has made."""
        self.keys_by_identity += 1
        if real is not None:
            self._identity_keys.setdefault(value.python_type(), set()).add(id(real))
        return IdentityKey(value if real is None else real)

    def distinct_groups(
        self, inputs: list[GraphInput | NumberInput | GeneratorInput]
    ) -> list[list[Source]]:
        """Paths to existing objects, inputs of the graph among them, that must not be one object: a
        change of one would be a change of the other, or two dictionary keys would be one. One list
        per type of which something was changed or several were keys."""
        changed = [
            value.python_type() for value in self._tx.effects.changed if value.source is not None
        ]
        several_keys = [cls for cls, keys in self._identity_keys.items() if len(keys) > 1]
        by_type: dict[type, list[Source]] = {cls: [] for cls in (*changed, *several_keys)}
        # paths to containers that were met under iterators alone
        containers: dict[int, Source] = {}
        for value in self.values():
            if value.source is not None and value.python_type() in by_type:
                by_type[value.python_type()].append(value.source)
            if isinstance(value, ExistingIterator) and type(value.taken_from) in by_type:
                self._add_iterated(value, by_type[type(value.taken_from)], containers)
        for item in inputs:
            if (
                item.value.python_type() in by_type
                and (item.source, Kind.TENSOR) in self._tx.guards
            ):
                by_type[item.value.python_type()].append(item.source)
        return [list(dict.fromkeys(sources)) for sources in by_type.values()]

    def _add_iterated(
        self, iterator: ExistingIterator, sources: list[Source], containers: dict[int, Source]
    ) -> None:
        """Adds the container behind an existing iterator, or guards that it is one found before."""
        path, known = IteratedContainer(iterator.known_source), self.find(iterator.taken_from)
        same = (
            containers.setdefault(id(iterator.taken_from), path) if known is None else known.source
        )
        if same is path:
            sources.append(path)
        elif same is not None:
            self._tx.guards.add(path, Kind.SAME, same)

    # what the traced program has changed

    def may_be_gone(self, obj: Any) -> bool:
        """Whether an existing object may be dead by now in eager. Here it lives until side effects
        are applied."""
        return may_be_gone(self._tx, self._frames, obj)

    def is_iterated_changed(self, iterator: Any) -> bool:
        """Whether the traced program has changed the container behind an existing iterator."""
        container, changed = iterated_container(iterator), self._tx.effects.changed
        value = None if container is iterator else self.find(container)
        return value in changed or (isinstance(value, UserObject) and value.base in changed)

    # namespaces

    def globals_path(
        self, globals_: dict[str, Any], function: FunctionValue | None = None
    ) -> Source | None:
        """A path to a globals dictionary: the root frame's, a module's, or that of a function with
        a path."""
        key = id(globals_)
        if key not in self._globals_paths:
            path: Source | None = None
            if globals_ is self._root_globals:
                path = GlobalsSource()
            elif is_namespace_of_its_module(globals_):
                path = InstanceDict(ModuleSource(globals_["__name__"]))
            elif function is not None and function.source is not None:
                path = AttrSource(function.source, "__globals__")
            self._globals_paths[key] = path
        return self._globals_paths[key]

    def finds_globals_again(self, globals_: dict[str, Any]) -> bool:
        """Whether a frame that goes on after a break can find a globals dictionary again."""
        return globals_ is self._root_globals or is_namespace_of_its_module(globals_)


def is_namespace_of_its_module(globals_: dict[str, Any]) -> bool:
    module = sys.modules.get(globals_.get("__name__", ""))
    return module is not None and vars(module) is globals_


def may_be_two(left: Value, right: Value) -> bool:
    """Whether two values are equal literals that may be different objects."""
    known = isinstance(left, Constant | GivenLiteral) and isinstance(right, Constant | GivenLiteral)
    if not known or left.python_type() is not right.python_type():
        return False
    one, other = left.constant(), right.constant()
    return (
        type(one) is type(other) and type(one) in (str, bytes, int, float, complex) and one == other
    )
