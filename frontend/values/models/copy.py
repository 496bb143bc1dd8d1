"""copy.copy and copy.deepcopy of containers, literals and plain objects."""

from __future__ import annotations

import collections
import copy
import copyreg
import operator
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

import torch

from ....errors import GraphBreak
from ....guards.guard import Kind
from ....guards.source import InstanceDict
from ..base import ObservedException, Value
from ..containers.deque import DequeValue
from ..containers.list import ListValue
from ..containers.mapping import DictValue
from ..containers.sequence import TupleValue, is_namedtuple_class
from ..containers.set import SetValue
from ..context import TraceContext
from ..functions.builtin_function import BuiltinValue
from ..functions.function import FunctionValue
from ..objects.attribute_storage import instance_dict
from ..objects.class_value import ClassValue
from ..objects.mro import HEAP_TYPE, IMMUTABLE_TYPE, lookup
from ..objects.user_object import UserObject
from ..registry import models

NO_OWN_WAY = (None, object)
ATOMS = (type(None), bool, int, float, complex, str, bytes, type(...), type(NotImplemented))

V = TypeVar("V", bound=Value)


def in_python(cls: type, name: str) -> bool:
    """Whether a class's method is written in Python, or is object's own."""
    owner, raw = lookup(cls, name)
    return owner in NO_OWN_WAY or type(raw) is FunctionType


def is_captured(obj: UserObject) -> bool:
    """Whether an object is copied by methods in Python and by state that is known."""
    cls = obj.cls
    if type(obj) is not UserObject or type(cls).__module__ == "torch":
        return False
    if cls in copyreg.dispatch_table or cls.__reduce_ex__ is not object.__reduce_ex__:
        return False
    builtin = (object,) if obj.base is None else (object, obj.base.python_type())
    by_statement = all(
        base in builtin or base.__flags__ & (HEAP_TYPE | IMMUTABLE_TYPE) == HEAP_TYPE
        for base in cls.__mro__
    )
    inside = obj.base is None or obj.base.python_type() in (list, dict)
    ways = ("__reduce__", "__getstate__", "__setstate__", "__getnewargs__", "__getnewargs_ex__")
    return (
        by_statement
        and inside
        and all(in_python(cls, name) for name in ("__copy__", "__deepcopy__"))
        and all(lookup(cls, name)[0] in (None, object) for name in ways)
        and not copyreg._slotnames(cls)  # type: ignore[attr-defined]
    )


def reconstruct(tx: TraceContext, obj: UserObject) -> Value:
    """What copy.copy makes of an object that has no __copy__."""
    made = new_instance(tx, obj)
    fill_instance(tx, obj, made, lambda value: value)
    return made


def new_instance(tx: TraceContext, obj: UserObject) -> UserObject:
    """An instance of the object's class, without what its initializer does."""
    made = tx.wrap(obj.cls, None).attribute(tx, "__new__").call(tx, [tx.wrap(obj.cls, None)], {})
    assert isinstance(made, UserObject)
    return made


def fill_instance(
    tx: TraceContext, obj: UserObject, made: UserObject, copied: Callable[[Value], Value]
) -> None:
    """Gives a new instance copies of the attributes and items of an object."""
    for name in obj.names(tx):
        value = obj.own_attribute(tx, name)
        if value is not None:
            made.store(tx, name, copied(value))
    if isinstance(obj.base, ListValue):
        for item in obj.unpack(tx):
            made.method(tx, "append", [copied(item)], {})
    elif isinstance(obj.base, DictValue):
        for pair in obj.method(tx, "items", [], {}).unpack(tx):
            key, value = pair.unpack(tx)
            made.set_item(tx, copied(key), copied(value))


def copy_of_tuple_subclass(tx: TraceContext, obj: TupleValue, items: list[Value]) -> Value:
    """Copies a tuple of a subclass by calling __new__ with its items."""
    if obj.cls in (tuple, torch.Size) or not is_namedtuple_class(obj.cls):
        return TupleValue(items, None, obj.cls)
    of = tx.wrap(obj.cls, None)
    return of.attribute(tx, "__new__").call(tx, [of, *items], {})


@models(copy.copy)
def shallow(tx: TraceContext, obj: Value) -> Value:
    if isinstance(obj, TupleValue) and is_namedtuple_class(obj.cls):
        return copy_of_tuple_subclass(tx, obj, obj.all(tx))
    if obj.is_constant() or isinstance(obj, FunctionValue | BuiltinValue | TupleValue):
        return obj
    if isinstance(obj, ListValue | DictValue | SetValue):
        guard_no_attributes(tx, obj)
        return obj.method(tx, "copy", [], {})
    if isinstance(obj, UserObject) and type(getattr(obj.cls, "__copy__", None)) is FunctionType:
        return obj.method(tx, "__copy__", [], {})
    if isinstance(obj, UserObject) and is_captured(obj):
        return reconstruct(tx, obj)
    raise GraphBreak("unknown-call", f"copy.copy() of {obj.describe()}")


def guard_no_attributes(tx: TraceContext, obj: Value) -> None:
    """Guards that an OrderedDict has no attributes, since a copy would have them too."""
    if isinstance(obj, DictValue) and obj.cls is collections.OrderedDict:
        if obj.attributes or instance_dict(obj.real):
            raise GraphBreak("unknown-call", f"a copy of {obj.describe()} with attributes")
        tx.guards.add(obj.source and InstanceDict(obj.source), Kind.KEYS, ())


@models(copy.deepcopy)
def deep(tx: TraceContext, obj: Value, memo: Value | None = None) -> Value:
    if memo is not None and not memo.is_none():
        raise GraphBreak("unknown-call", "copy.deepcopy() with a memo")
    return DeepCopy(tx).copy(obj)


def is_atomic(obj: Value) -> bool:
    """Whether an object is its own deep copy."""
    return (
        obj.is_constant()
        or isinstance(obj, FunctionValue | BuiltinValue | ClassValue)
        or obj.python_type() in ATOMS
    )


class DeepCopy:
    """One call of copy.deepcopy. `memo` holds what was copied and its copy, by id of the value."""

    def __init__(self, tx: TraceContext) -> None:
        self.tx = tx
        self.memo: dict[int, tuple[Value, Value]] = {}
        self.open: set[int] = set()  # builtin containers whose items are being copied

    def copy(self, obj: Value) -> Value:
        """The deep copy of a value; the same copy each time."""
        obj = self.tx.look(obj)
        self.tx.work.count()
        if is_atomic(obj):
            return obj
        if id(obj) in self.memo and id(obj) not in self.open:
            return self.memo[id(obj)][1]
        family = next((cls for cls in CONTAINERS if isinstance(obj, cls)), None)
        if family is not None and not isinstance(obj, DequeValue):
            if id(obj) in self.open:
                raise GraphBreak("unknown-call", f"copy.deepcopy() of {obj.describe()} in itself")
            self.open.add(id(obj))
            made = CONTAINERS[family](self, obj)
            self.open.remove(id(obj))
            return made
        if isinstance(obj, UserObject) and is_captured(obj) and not self._has_own_way(obj):
            instance = self._remember(obj, new_instance(self.tx, obj))
            fill_instance(self.tx, obj, instance, self.copy)
            return instance
        raise GraphBreak("unknown-call", f"copy.deepcopy() of {obj.describe()}")

    def _remember(self, obj: Value, made: V) -> V:
        self.memo[id(obj)] = obj, made
        return made

    def _has_own_way(self, obj: UserObject) -> bool:
        """Whether `obj.__deepcopy__` exists. Python asks the object for this and more names: a
        __getattribute__ or __getattr__ that changes something is left to Python."""
        stop = GraphBreak("unknown-call", f"copy.deepcopy() of {obj.describe()}")
        with self.tx.effects.allow_new_objects_only(stop):
            try:
                obj.attribute(self.tx, "__deepcopy__")
            except ObservedException as error:
                if not issubclass(error.cls, AttributeError):
                    raise
                return False
        return True

    def of_tuple(self, obj: TupleValue) -> Value:
        items = obj.all(self.tx)
        copies = [self.copy(item) for item in items]
        if obj.cls is tuple and all(map(operator.is_, items, copies)):
            return obj
        if obj.cls is not tuple and not is_namedtuple_class(obj.cls):
            raise GraphBreak("unknown-call", f"copy.deepcopy() of {obj.describe()}")
        return self._remember(obj, copy_of_tuple_subclass(self.tx, obj, copies))

    def of_list(self, obj: ListValue) -> Value:
        made = self._remember(obj, self.tx.make.list_of([]))
        for item in obj.iterate_live(self.tx):
            made.method(self.tx, "append", [self.copy(item)], {})
        return made

    def of_dict(self, obj: DictValue) -> Value:
        guard_no_attributes(self.tx, obj)
        made = self._remember(obj, obj.method(self.tx, "copy", [], {}))
        for key, value in obj.pairs(self.tx):
            if not is_atomic(key):
                raise GraphBreak("unknown-call", f"copy.deepcopy() of {obj.describe()}")
            if not is_atomic(value):
                made.set_item(self.tx, key, self.copy(value))
        return made

    def of_set(self, obj: SetValue) -> Value:
        """Made of a list of the members, as Python does: the order of a copy() can differ."""
        if not all(map(is_atomic, obj.members.values())):
            raise GraphBreak("unknown-call", f"copy.deepcopy() of {obj.describe()}")
        members = {key: obj.members[key] for key in obj.order}
        return self._remember(obj, SetValue(members, None, obj.cls))


CONTAINERS: dict[type, Callable[[DeepCopy, Any], Value]] = {
    TupleValue: DeepCopy.of_tuple,
    ListValue: DeepCopy.of_list,
    DictValue: DeepCopy.of_dict,
    SetValue: DeepCopy.of_set,
}
