"""An instance dictionary as an object: the result of `obj.__dict__` and `vars(obj)`. Its contents
are the state of the object itself."""

from __future__ import annotations

from typing import Any

from ..base import Value
from ..constant import Constant
from ..context import TraceContext
from ..emitter import Emitter
from ..functions.function import FunctionValue
from ..objects.attribute_storage import instance_dict
from ..objects.user_object import UserObject
from .mapping import DictValue


class InstanceDictValue(DictValue):
    """A dictionary that reads and writes the attributes of `of`."""

    __slots__ = ("of",)

    def __init__(self, of: UserObject | FunctionValue) -> None:
        super().__init__({})
        self.of = of

    def _name(self, key: Value) -> str:
        name = key.constant()
        if not isinstance(name, str):
            raise self.unsupported_use("a key that is no string")
        return name

    def all_entries(self, tx: TraceContext) -> dict[Any, tuple[Value, Value]]:
        found = ((name, self.of.own_attribute(tx, name)) for name in self.of.names(tx))
        self.entries = {name: (Constant(name), value) for name, value in found if value is not None}
        return self.entries

    def get(self, tx: TraceContext, key: Value) -> Value | None:
        return self.of.own_attribute(tx, self._name(key))

    def put(self, tx: TraceContext, key: Value, value: Value) -> None:
        self.of.store(tx, self._name(key), value)

    def drop(self, tx: TraceContext, key: Value) -> Value | None:
        value = self.get(tx, key)
        if value is not None:
            self.of.remove(tx, self._name(key))
        return value

    def clear(self, tx: TraceContext) -> None:
        for name in self.of.names(tx):
            self.of.remove(tx, name)

    def length(self, tx: TraceContext) -> Value:
        return Constant(len(self.of.names(tx)))

    def contains(self, tx: TraceContext, item: Value) -> Value:
        return Constant(self.get(tx, item) is not None)

    def reconstruct(self, emit: Emitter) -> None:
        emit.call(instance_dict, [self.of])
