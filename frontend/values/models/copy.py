"""copy.copy of containers, literals and plain objects."""

from __future__ import annotations

import collections
import copy
import copyreg
from types import FunctionType

import torch

from ....errors import GraphBreak
from ....guards.guard import Kind
from ....guards.source import InstanceDict
from ..base import Value
from ..containers.list import ListValue
from ..containers.mapping import DictValue
from ..containers.sequence import TupleValue
from ..containers.set import SetValue
from ..context import TraceContext
from ..functions.builtin_function import BuiltinValue
from ..functions.function import FunctionValue
from ..objects.attribute_storage import instance_dict
from ..objects.mro import HEAP_TYPE, IMMUTABLE_TYPE, lookup
from ..objects.user_object import UserObject
from ..registry import models

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


def reconstruct(tx: TraceContext, obj: UserObject) -> Value:
    """What copy.copy makes of an object that has no __copy__."""
    made = tx.wrap(obj.cls, None).attribute(tx, "__new__").call(tx, [tx.wrap(obj.cls, None)], {})
    assert isinstance(made, UserObject)
    for name in obj.names(tx):
        value = obj.own_attribute(tx, name)
        if value is not None:
            made.store(tx, name, value)
    if isinstance(obj.base, ListValue):
        for item in obj.unpack(tx):
            made.method(tx, "append", [item], {})
    elif isinstance(obj.base, DictValue):
        for pair in obj.method(tx, "items", [], {}).unpack(tx):
            made.set_item(tx, *pair.unpack(tx))
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
    """Of what is not copied. Python copies everything else, by rules of each class."""
    if obj.is_constant() or isinstance(obj, FunctionValue | BuiltinValue):
        return obj
    raise GraphBreak("unknown-call", f"copy.deepcopy() of {obj.describe()}")
