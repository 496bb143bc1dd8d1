"""copy.copy and copy.deepcopy of containers, literals and plain objects."""
from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from ....errors import GraphBreak
from ..base import Value
from ..function import BuiltinValue, FunctionValue
from ..klass import HEAP_TYPE, IMMUTABLE_TYPE, MISSING, lookup
from ..mapping import DictValue, SetValue
from ..registry import models
from ..sequence import ListValue, TupleValue
from ..user_object import UserObject

if TYPE_CHECKING:
    from ..context import TraceContext

HOOKS = ("__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__getnewargs__", "__getnewargs_ex__")


def plain_object(obj: Value) -> bool:
    """Whether copies of an object are made of its instance dictionary and nothing else."""
    if type(obj) is not UserObject or obj.base is not None or type(obj.cls).__module__ == "torch":
        return False
    ways = [lookup(obj.cls, name)[0] for name in HOOKS]
    slots = any("__slots__" in vars(base) for base in obj.cls.__mro__)
    by_statement = all(base is object or base.__flags__ & (HEAP_TYPE | IMMUTABLE_TYPE) == HEAP_TYPE for base in obj.cls.__mro__)
    own = [lookup(obj.cls, name)[1] for name in ("__copy__", "__deepcopy__")]
    in_python = all(way is MISSING or type(way) is type(shallow) for way in own)
    plain = by_statement and in_python and obj.cls.__dictoffset__ != 0
    return plain and all(owner in (None, object) for owner in ways) and not slots


@models(copy.copy)
def shallow(tx: TraceContext, obj: Value) -> Value:
    if obj.is_constant() or isinstance(obj, FunctionValue | BuiltinValue | TupleValue):
        return obj
    if isinstance(obj, ListValue | DictValue | SetValue):
        return obj.method(tx, "copy", [], {})
    if isinstance(obj, UserObject) and type(getattr(obj.cls, "__copy__", None)) is type(shallow):
        return obj.method(tx, "__copy__", [], {})
    if isinstance(obj, UserObject) and plain_object(obj):
        made = tx.new_object(obj.cls, [])
        assert isinstance(made, UserObject)
        for name in obj.names(tx):
            made.store(tx, name, obj.own_attribute(tx, name))
        return made
    raise GraphBreak("unknown-call", f"copy.copy() of {obj.describe()}")


@models(copy.deepcopy)
def deep(tx: TraceContext, obj: Value, memo: Value | None = None) -> Value:
    return DeepCopy(tx, memo or DictValue({})).copy(obj)


class DeepCopy:
    """One call of copy.deepcopy: what is met twice is copied once."""

    def __init__(self, tx: TraceContext, memo: Value) -> None:
        self.tx, self.memo = tx, memo
        self.made: dict[Value, Value] = {}

    def copy(self, obj: Value) -> Value:
        obj = self.tx.look(obj)
        if obj.is_constant() or isinstance(obj, FunctionValue | BuiltinValue):
            return obj
        if obj not in self.made:
            rule = next((rule for family, rule in RULES if isinstance(obj, family)), None)
            if rule is None:
                raise GraphBreak("unknown-call", f"copy.deepcopy() of {obj.describe()}")
            self.made[obj] = rule(self, obj)
        return self.made[obj]

    def list(self, obj: ListValue) -> Value:
        if obj.cls is not list:
            raise GraphBreak("unknown-call", f"copy.deepcopy() of {obj.describe()}")
        made = self.made[obj] = ListValue([])
        made.items = [self.copy(item) for item in obj.all(self.tx)]
        return made

    def tuple(self, obj: TupleValue) -> Value:
        items = obj.all(self.tx)
        copied = [self.copy(item) for item in items]
        same = all(a is b for a, b in zip(items, copied, strict=True))
        return obj if same else TupleValue(copied, None, obj.cls)

    def dict(self, obj: DictValue) -> Value:
        made = self.made[obj] = DictValue({}, cls=obj.cls, default_factory=obj.default_factory)
        for key, value in obj.pairs(self.tx):
            made.put(self.tx, self.copy(key), self.copy(value))
        return made

    def set(self, obj: SetValue) -> Value:
        if not obj.is_known():
            raise GraphBreak("unknown-call", f"copy.deepcopy() of {obj.describe()}")
        return obj.method(self.tx, "copy", [], {})

    def object(self, obj: UserObject) -> Value:
        if type(getattr(obj.cls, "__deepcopy__", None)) is type(shallow):
            return obj.method(self.tx, "__deepcopy__", [self.memo], {})
        if not plain_object(obj):
            raise GraphBreak("unknown-call", f"copy.deepcopy() of {obj.describe()}")
        made = self.made[obj] = self.tx.new_object(obj.cls, [])
        assert isinstance(made, UserObject)
        for name in obj.names(self.tx):
            value = obj.own_attribute(self.tx, name)
            assert value is not None
            made.store(self.tx, name, self.copy(value))
        return made


RULES: tuple[tuple[type, Any], ...] = (
    (ListValue, DeepCopy.list), (TupleValue, DeepCopy.tuple), (DictValue, DeepCopy.dict), (SetValue, DeepCopy.set),
    (UserObject, DeepCopy.object),
)  # fmt: skip
