"""Views of dictionaries: keys(), values(), items()."""

from __future__ import annotations

import collections
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from ....guards.guard import Kind
from ....guards.source import AttrSource, Source
from ..base import Value
from ..constant import Constant
from ..registry import method, wraps
from .dict_iterator import DictIterator
from .mapping import DictValue
from .mapping_proxy import MappingProxyValue
from .sequence import ListValue, TupleValue
from .set import SetValue, compare_members

if TYPE_CHECKING:
    from ..context import TraceContext
    from ..emitter import Emitter
    from ..operation import Operation


class ViewValue(Value):
    """dict.keys(), .values() or .items(). Reads the dictionary when used, as in CPython."""

    __slots__ = ("of", "what")
    classes = {"keys": type({}.keys()), "values": type({}.values()), "items": type({}.items())}

    def __init__(self, of: DictValue, what: str, source: Source | None = None) -> None:
        super().__init__(source)
        self.of, self.what = of, what

    def python_type(self) -> type:
        return (
            type(getattr(OrderedDict(), self.what)())
            if self.of.cls is OrderedDict
            else self.classes[self.what]
        )

    def list(self, tx: TraceContext) -> list[Value]:
        if self.what == "keys":
            return [key for key, _ in self.of.whole(tx).values()]
        pairs = self.of.pairs(tx)
        return (
            [value for _, value in pairs]
            if self.what == "values"
            else [TupleValue(list(pair)) for pair in pairs]
        )

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

    def as_set(self, tx: TraceContext) -> SetValue | None:
        if self.what == "values":
            return None
        return SetValue({value.key(tx): value for value in self.list(tx)})

    def compare(self, tx: TraceContext, op: Operation, other: Value) -> Value | None:
        left = None if self.what == "values" else other.as_set(tx)
        right = None if left is None else self.as_set(tx)
        return None if left is None or right is None else compare_members(op, right, left)

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
    shown = tx.wrap(obj.mapping, AttrSource(source, "mapping"))
    assert isinstance(shown, MappingProxyValue)
    return tx.objects.remember(obj, ViewValue(shown.shown, VIEWS[type(obj)], source))
