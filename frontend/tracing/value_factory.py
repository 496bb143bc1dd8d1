"""ValueFactory: makes values of families that the asking family does not import (they would import
each other)."""

from __future__ import annotations

from ..values.base import Value
from ..values.containers.builtin_container import BoundBuiltin
from ..values.containers.instance_dict import InstanceDictValue
from ..values.containers.list import ListValue
from ..values.containers.mapping import DictValue
from ..values.containers.sequence import TupleValue
from ..values.context import TraceContext
from ..values.functions.function import FunctionValue
from ..values.objects.user_object import UserObject


class ValueFactory:
    """Every method returns a value of an object that the traced program makes here."""

    def __init__(self, tx: TraceContext) -> None:
        self._tx = tx

    def tuple_of(self, items: list[Value]) -> Value:
        return TupleValue(items)

    def list_of(self, items: list[Value]) -> Value:
        return ListValue(items)

    def dict_of(self, pairs: list[tuple[Value, Value]]) -> DictValue:
        """A dictionary display: of equal keys the first stays, with the last value."""
        made = DictValue({})
        for key, value in pairs:
            made.put(self._tx, key, value)
        return made

    def bound_method(self, receiver: Value, name: str) -> Value:
        """A method of a builtin type, bound to a value."""
        return BoundBuiltin(receiver, name)

    def instance_dictionary(self, owner: Value) -> Value:
        """An object's `__dict__`."""
        assert isinstance(owner, UserObject | FunctionValue)
        return InstanceDictValue(owner)
