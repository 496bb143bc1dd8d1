"""The methods behind len(), iter(), `in` and subscripts, of the builtin containers, and of views of
dictionaries."""

from __future__ import annotations

from collections import deque

from ..base import Value
from ..constant import Constant
from ..context import TraceContext
from ..registry import method
from .builtin_container import BuiltinContainer

SETS = (set, frozenset)
KEYS: type = type({}.keys())
VALUES: type = type({}.values())
ITEMS: type = type({}.items())


@method((list, tuple, dict, deque, *SETS, KEYS, VALUES, ITEMS), "__len__")
def container_len(tx: TraceContext, self: Value) -> Value:
    return self.length(tx)


@method((list, tuple, dict, deque, *SETS, KEYS, VALUES, ITEMS), "__iter__")
def container_iter(tx: TraceContext, self: Value) -> Value:
    return self.iterator(tx)


@method((list, tuple, dict, deque, *SETS, KEYS, ITEMS), "__contains__")
def container_contains(tx: TraceContext, self: Value, item: Value) -> Value:
    return self.contains(tx, item)


@method((list, tuple, dict), "__getitem__")
def container_getitem(tx: TraceContext, self: BuiltinContainer, key: Value) -> Value:
    return self.item(tx, key)


@method((list, dict), "__setitem__")
def container_setitem(tx: TraceContext, self: BuiltinContainer, key: Value, value: Value) -> Value:
    self.set_item(tx, key, value)
    return Constant(None)


@method((list, dict), "__delitem__")
def container_delitem(tx: TraceContext, self: BuiltinContainer, key: Value) -> Value:
    self.del_item(tx, key)
    return Constant(None)
