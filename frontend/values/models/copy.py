"""copy.copy and copy.deepcopy of containers, literals and plain objects."""

from __future__ import annotations

import collections
import copy
import copyreg
import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch

from ....errors import GraphBreak
from ....guards.guard import Kind
from ....guards.source import InstanceDict
from ..base import CannotReconstruct, Value
from ..containers.deque import DequeValue
from ..containers.mapping import DictValue
from ..containers.sequence import ListValue, TupleValue
from ..containers.set import SetValue
from ..context import TraceContext
from ..emitter import Emitter
from ..functions.builtin_function import BuiltinValue
from ..functions.function import FunctionValue
from ..objects.mro import HEAP_TYPE, IMMUTABLE_TYPE, lookup
from ..objects.user_object import UserObject, instance_dict
from ..registry import models

Each = Callable[[Value], Value]  # what becomes of a part of the copied object: itself, or a copy
NO_OWN_WAY = (None, object)


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


def reconstruct(
    tx: TraceContext, obj: UserObject, each: Each, note: Callable[[Value], Any]
) -> Value:
    """What the copy module makes of an object that has no __copy__ or __deepcopy__. `note` is
    called with the copy before it is filled."""
    made = tx.wrap(obj.cls, None).attribute(tx, "__new__").call(tx, [tx.wrap(obj.cls, None)], {})
    note(made)
    assert isinstance(made, UserObject)
    attributes = [(name, obj.own_attribute(tx, name)) for name in obj.names(tx)]
    for name, copied in [(name, each(value)) for name, value in attributes if value is not None]:
        made.store(tx, name, copied)
    if isinstance(obj.base, ListValue):
        for item in obj.unpack(tx):
            made.method(tx, "append", [each(item)], {})
    elif isinstance(obj.base, DictValue):
        for pair in obj.method(tx, "items", [], {}).unpack(tx):
            key, value = pair.unpack(tx)
            made.set_item(tx, each(key), each(value))
    return made


def copy_of_tuple_subclass(tx: TraceContext, obj: TupleValue, items: list[Value]) -> Value:
    """Copies a tuple of a subclass by calling __new__ with its items."""
    if obj.cls in (tuple, torch.Size) or not hasattr(obj.cls, "_make"):
        return TupleValue(items, None, obj.cls)
    of = tx.wrap(obj.cls, None)
    return of.attribute(tx, "__new__").call(tx, [of, *items], {})


@models(copy.copy)
def shallow(tx: TraceContext, obj: Value) -> Value:
    if isinstance(obj, TupleValue) and hasattr(obj.cls, "_make"):
        return copy_of_tuple_subclass(tx, obj, obj.all(tx))
    if obj.is_constant() or isinstance(obj, FunctionValue | BuiltinValue | TupleValue):
        return obj
    if isinstance(obj, ListValue | DictValue | SetValue):
        guard_no_attributes(tx, obj)
        return obj.method(tx, "copy", [], {})
    if isinstance(obj, UserObject) and type(getattr(obj.cls, "__copy__", None)) is FunctionType:
        return obj.method(tx, "__copy__", [], {})
    if isinstance(obj, UserObject) and is_captured(obj):
        return reconstruct(tx, obj, lambda part: part, lambda made: None)
    raise GraphBreak("unknown-call", f"copy.copy() of {obj.describe()}")


def guard_no_attributes(tx: TraceContext, obj: Value) -> None:
    """Guards that an OrderedDict has no attributes, since a copy would have them too."""
    if isinstance(obj, DictValue) and obj.cls is collections.OrderedDict:
        if obj.attributes or instance_dict(obj.real):
            raise GraphBreak("unknown-call", f"a copy of {obj.describe()} with attributes")
        tx.guards.add(obj.source and InstanceDict(obj.source), Kind.KEYS, ())


class Memo(DictValue):
    """The dictionary that __deepcopy__ is given. Objects copied before are found there by the same
    call of copy.deepcopy."""

    __slots__ = ("of",)

    def __init__(self, of: DeepCopy) -> None:
        super().__init__({})
        self.of = of

    def reconstruct(self, emit: Emitter) -> None:
        raise CannotReconstruct(self)


@models(copy.deepcopy)
def deep(tx: TraceContext, obj: Value, memo: Value | None = None) -> Value:
    if isinstance(memo, Memo):
        return memo.of.copy(obj)
    if memo is not None and not memo.is_none():
        raise GraphBreak("unknown-call", "copy.deepcopy() with a memo of the program's own")
    return DeepCopy(tx).copy(obj)


class DeepCopy:
    """One call of copy.deepcopy: an object that occurs twice is copied once."""

    def __init__(self, tx: TraceContext) -> None:
        self.tx, self.memo = tx, Memo(self)
        self.made: dict[Value, Value] = {}

    def copy(self, obj: Value) -> Value:
        obj = self.tx.look(obj)
        if obj.is_constant() or isinstance(obj, FunctionValue | BuiltinValue):
            return obj
        if obj not in self.made and obj.source is not None and self.memo.entries:
            # the program's own __deepcopy__ put it there
            noted = self.memo.entries.get(id(self.tx.objects.real_object(obj)))
            if noted is not None:
                self.made[obj] = noted[1]
        if obj not in self.made:
            rule = next((rule for family, rule in RULES if isinstance(obj, family)), None)
            if rule is None:
                raise GraphBreak("unknown-call", f"copy.deepcopy() of {obj.describe()}")
            self.made[obj] = rule(self, obj)
        return self.made[obj]

    def list(self, obj: ListValue) -> Value:
        if obj.cls not in (list, collections.deque):
            raise GraphBreak("unknown-call", f"copy.deepcopy() of {obj.describe()}")
        made = self.made[obj] = (
            DequeValue([], obj.maxlen) if isinstance(obj, DequeValue) else ListValue([])
        )
        for item in obj.iterate_live(self.tx):
            made.items.append(self.copy(item))
        return made

    def tuple(self, obj: TupleValue) -> Value:
        items = obj.all(self.tx)
        copied = [self.copy(item) for item in items]
        if obj in self.made:  # the tuple contains itself
            return self.made[obj]
        same = all(a is b for a, b in zip(items, copied, strict=True))
        return (
            obj
            if same and not hasattr(obj.cls, "_make")
            else copy_of_tuple_subclass(self.tx, obj, copied)
        )

    def dict(self, obj: DictValue) -> Value:
        guard_no_attributes(self.tx, obj)
        made = self.made[obj] = DictValue({}, cls=obj.cls, default_factory=obj.default_factory)
        for key, value in obj.pairs(self.tx):
            made.put(self.tx, self.copy(key), self.copy(value))
        return made

    def set(self, obj: SetValue) -> Value:
        if not obj.is_known():
            raise GraphBreak("unknown-call", f"copy.deepcopy() of {obj.describe()}")
        return obj.method(self.tx, "copy", [], {})

    def object(self, obj: UserObject) -> Value:
        if type(getattr(obj.cls, "__deepcopy__", None)) is FunctionType:
            return obj.method(self.tx, "__deepcopy__", [self.memo], {})
        if not is_captured(obj):
            raise GraphBreak("unknown-call", f"copy.deepcopy() of {obj.describe()}")
        return reconstruct(self.tx, obj, self.copy, functools.partial(self.made.__setitem__, obj))


RULES: tuple[tuple[type, Any], ...] = (
    (ListValue, DeepCopy.list), (TupleValue, DeepCopy.tuple), (DictValue, DeepCopy.dict),
    (SetValue, DeepCopy.set), (UserObject, DeepCopy.object),
)  # fmt: skip
