"""copy.copy and copy.deepcopy of containers and literals."""
from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from ....errors import GraphBreak
from ..base import Value
from ..function import BuiltinValue, FunctionValue
from ..mapping import DictValue, SetValue
from ..registry import models
from ..sequence import ListValue, TupleValue
from ..user_object import UserObject

if TYPE_CHECKING:
    from ..context import TraceContext


@models(copy.copy)
def shallow(tx: TraceContext, obj: Value) -> Value:
    if obj.is_constant() or isinstance(obj, FunctionValue | BuiltinValue | TupleValue):
        return obj
    if isinstance(obj, ListValue | DictValue | SetValue):
        return obj.method(tx, "copy", [], {})
    if isinstance(obj, UserObject) and type(getattr(obj.cls, "__copy__", None)) is type(shallow):
        return obj.method(tx, "__copy__", [], {})
    raise GraphBreak("unknown-call", f"copy.copy() of {obj.describe()}")


@models(copy.deepcopy)
def deep(tx: TraceContext, obj: Value, memo: Value | None = None) -> Value:
    if obj.is_constant() or isinstance(obj, FunctionValue | BuiltinValue):
        return obj
    if isinstance(obj, ListValue | TupleValue):
        return type(obj)([deep(tx, item) for item in obj.all(tx)], None, obj.cls)
    if isinstance(obj, DictValue):
        return DictValue({k.key(): (k, deep(tx, v)) for k, v in obj.pairs(tx)}, cls=obj.cls, default_factory=obj.default_factory)
    if isinstance(obj, UserObject) and type(getattr(obj.cls, "__deepcopy__", None)) is type(deep):
        return obj.method(tx, "__deepcopy__", [memo or DictValue({})], {})
    raise GraphBreak("unknown-call", f"copy.deepcopy() of {obj.describe()}")
