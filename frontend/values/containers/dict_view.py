"""Views of dictionaries: keys(), values(), items()."""

from __future__ import annotations

import collections
from collections import OrderedDict
from typing import Any

from ....guards.guard import Kind
from ....guards.source import AttrSource, Source
from ..base import Value
from ..constant import Constant, call_now
from ..context import TraceContext
from ..emitter import Emitter
from ..operation import Operation
from ..registry import method, wraps
from .list import ListValue
from .mapping import DictIterator, DictValue
from .mapping_proxy import MappingProxyValue
from .sequence import TupleValue
from .set import METHODS, SetValue, compare_members
from .set_algebra import kept_members


class OtherDict(dict):  # type: ignore[type-arg]
    """A subclass of dict, for which C does not take the short cuts of exact dicts."""


class ViewValue(Value):
    """dict.keys(), .values() or .items(). Reads the dictionary when used, as in CPython."""

    __slots__ = ("of", "what")
    classes = {"keys": type({}.keys()), "values": type({}.values()), "items": type({}.items())}

    def __init__(self, of: DictValue, what: str, source: Source | None = None) -> None:
        super().__init__(source)
        self.of, self.what = of, what

    def python_type(self) -> type:
        if self.of.cls is OrderedDict:
            return type(getattr(OrderedDict(), self.what)())
        return self.classes[self.what]

    def list(self, tx: TraceContext) -> list[Value]:
        if self.what == "keys":
            return [key for key, _ in self.of.whole(tx).values()]
        pairs = self.of.pairs(tx)
        if self.what == "values":
            return [value for _, value in pairs]
        return [TupleValue(list(pair)) for pair in pairs]

    def iterator(self, tx: TraceContext) -> Value:
        return DictIterator(self.of, self.what, tx)

    def length(self, tx: TraceContext) -> Value:
        return self.of.length(tx)

    def truth(self, tx: TraceContext) -> bool:
        return bool(self.of.length(tx).constant())

    def contains(self, tx: TraceContext, item: Value) -> Value:
        if self.what == "keys":
            return self.of.contains(tx, item)
        return Constant(any(tx.objects.equal(candidate, item) for candidate in self.list(tx)))

    def real(self, tx: TraceContext) -> Any:
        """A real view of a dictionary of keys, in the order of list()."""
        whole = (
            self.of.pairs(tx)
            if self.what == "items"
            else [(key, Constant(None)) for key, _ in self.of.whole(tx).values()]
        )
        keys = {key.key(tx): value.key(tx) for key, value in whole}
        return getattr(keys if self.of.is_plain() else OtherDict(keys), self.what)()

    def as_set(self, tx: TraceContext) -> SetValue | None:
        if self.what == "values":
            return None
        return SetValue({value.key(tx): value for value in self.list(tx)})

    def compare(self, tx: TraceContext, op: Operation, other: Value) -> Value | None:
        left = None if self.what == "values" else other.as_set(tx)
        right = None if left is None else self.as_set(tx)
        return None if left is None or right is None else compare_members(op, right, left)

    def operate(self, tx: TraceContext, op: Operation, other: Value) -> Value | None:
        """Returns a new set; also for an operator in place."""
        if op.symbol not in METHODS or not isinstance(other, SetValue | ViewValue):
            return None
        kinds = {side.what for side in (self, other) if isinstance(side, ViewValue)}
        if "values" in kinds and len(kinds) > 1:
            return None  # keys and items take any iterable: the values themselves count
        return combine_with_view(tx, op, self, other)

    def operate_reflected(self, tx: TraceContext, op: Operation, other: Value) -> Value | None:
        if op.symbol not in METHODS or not isinstance(other, SetValue):
            return None
        return combine_with_view(tx, op, other, self)

    def reconstruct(self, emit: Emitter) -> None:
        emit.call(getattr(self.of.cls, self.what), [self.of])


@method(dict, "keys")
def dict_keys(tx: TraceContext, self: DictValue) -> Value:
    return ViewValue(self, "keys")


@method(dict, "values")
def dict_values(tx: TraceContext, self: DictValue) -> Value:
    return ViewValue(self, "values")


@method(dict, "items")
def dict_items(tx: TraceContext, self: DictValue) -> Value:
    return ViewValue(self, "items")


VIEWS: dict[type, str] = {
    type(getattr(cls(), what)()): what
    for cls in (dict, collections.OrderedDict)
    for what in ("keys", "values", "items")
}


@wraps(*VIEWS)
def wrap_view(tx: TraceContext, obj: Any, source: Source | None) -> Value:
    if source is None:
        return ListValue([tx.wrap(item, None) for item in obj])
    tx.guards.add(source, Kind.TYPE, type(obj))
    proxy = tx.wrap(obj.mapping, AttrSource(source, "mapping"))
    assert isinstance(proxy, MappingProxyValue)
    return tx.objects.remember(obj, ViewValue(proxy.mapping, VIEWS[type(obj)], source))


def combine_with_view(
    tx: TraceContext, op: Operation, left: SetValue | ViewValue, right: SetValue | ViewValue
) -> Value:
    """A set operator with a dictionary's view: views build the new set in an order of their own.
    Values have no such operators, so that Python raises TypeError."""
    sides = [side.order if isinstance(side, SetValue) else side.real(tx) for side in (left, right)]
    members = [
        side.members if isinstance(side, SetValue) else dict(zip(real, side.list(tx), strict=True))
        for side, real in zip((left, right), sides, strict=True)
    ]
    made = call_now(tx, op.function, *sides)
    return SetValue(kept_members(made, members), None, set, made)
