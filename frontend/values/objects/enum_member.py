"""Members of enumerations. Their identity is guarded; their attributes may change."""

from __future__ import annotations

import enum
import types
from typing import Any

from ....errors import GraphBreak
from ....guards.guard import Kind
from ....guards.source import ClassAttribute, DictItem, InstanceDict, Source
from ..base import Args, Kwargs, Value
from ..constant import Constant, ConstantMethod
from ..context import TraceContext
from ..registry import wraps_subclasses
from .class_value import class_path
from .mro import lookup


class EnumMember(Constant):
    """A member of an enumeration. Its methods in C are evaluated at once."""

    __slots__ = ()

    def describe(self) -> str:
        return f"member of {type(self.object).__qualname__}"

    def attribute(self, tx: TraceContext, name: str) -> Value:
        raw = lookup(type(self.object), name)[1]
        if type(raw) is types.FunctionType:
            return tx.calls.class_method(self, type(self.object), name)
        if type(raw) in (property, enum.property) and raw.fget is not None:
            return tx.wrap(raw.fget, None).call(tx, [self], {})
        if name == "__dict__":
            raise self.unsupported_use("its __dict__")
        own = None if hasattr(type(raw), "__set__") else self.own_attribute(tx, name)
        return super().attribute(tx, name) if own is None else own

    def method(self, tx: TraceContext, name: str, args: Args, kwargs: Kwargs) -> Value:
        if hasattr(type(self.object)._member_type_, name):
            return super().method(tx, name, args, kwargs)
        found = self.attribute(tx, name)
        if isinstance(found, ConstantMethod):
            raise self.unsupported_use(f"method {name}")
        return found.call(tx, args, kwargs)

    def iterator(self, tx: TraceContext) -> Value:
        if lookup(type(self.object), "__iter__")[1] is vars(enum.Flag).get("__iter__"):
            return tx.wrap(tuple(self.object), None).iterator(tx)
        return super().iterator(tx)

    def own_attribute(self, tx: TraceContext, name: str) -> Value | None:
        """What its own dictionary holds, or None."""
        own, path = vars(self.object), self._dictionary(tx)
        if name in own:
            return tx.objects.wrap_held(own[name], path and DictItem(path, name))
        tx.guards.add(path, Kind.ABSENT, name)
        return None

    def _dictionary(self, tx: TraceContext) -> Source | None:
        """The path to its own dictionary: from where it was found, or by its name in its class."""
        if self.source is not None:
            return InstanceDict(self.source)
        cls: Any = type(self.object)
        path = (
            class_path(tx, cls, None)
            if cls._member_map_.get(self.object._name_) is self.object
            else None
        )
        return path and InstanceDict(
            DictItem(ClassAttribute(path, "_member_map_"), self.object._name_)
        )


@wraps_subclasses(enum.Enum)
def wrap_enum(tx: TraceContext, obj: Any, source: Source | None) -> Value:
    if "_name_" not in object.__getattribute__(obj, "__dict__"):
        raise GraphBreak(
            "unsupported-value", f"a member of {type(obj).__qualname__}, which is being made"
        )
    tx.guards.add(source, Kind.IS, obj)
    return EnumMember(obj, source)
