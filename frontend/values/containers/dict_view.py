"""Views of dictionaries: keys(), values(), items()."""

from __future__ import annotations

import gc
from collections import OrderedDict
from typing import Any

from ....errors import GraphBreak
from ....guards.guard import Kind
from ....guards.source import ProxiedMapping, Source
from ..base import Args, Kwargs, Value, require_path
from ..constant import Constant
from ..context import TraceContext
from ..emitter import Emitter
from ..operation import Operation
from ..registry import accepts, method, method_of, wraps
from .builtin_container import BoundBuiltin
from .dict_iterator import DictIterator
from .mapping import DictValue
from .sequence import TupleValue
from .set import SetValue, compare_members


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

    def attribute(self, tx: TraceContext, name: str) -> Value:
        if method_of(self.python_type(), name) is None:
            return super().attribute(tx, name)
        return BoundBuiltin(self, name)

    def method(self, tx: TraceContext, name: str, args: Args, kwargs: Kwargs) -> Value:
        handler = method_of(self.python_type(), name)
        if handler is None or not accepts(handler, len(args) + 2, kwargs):
            return super().attribute(tx, name)
        found: Value = handler(tx, self, *args)
        return found

    def unpack(self, tx: TraceContext) -> list[Value]:
        if self.what == "keys":
            return self.list(tx)
        pairs = self.of.unpack_pairs(tx)
        if self.what == "values":
            return [value for _, value in pairs]
        return [TupleValue(list(pair)) for pair in pairs]

    def list(self, tx: TraceContext) -> list[Value]:
        if self.what == "keys":
            return [key for key, _ in self.of.all_entries(tx).values()]
        pairs = self.of.pairs(tx)
        if self.what == "values":
            return [value for _, value in pairs]
        return [TupleValue(list(pair)) for pair in pairs]

    def iterator(self, tx: TraceContext) -> Value:
        return DictIterator(self.of, self.what, tx)

    def reverse_iterator(self, tx: TraceContext) -> Value:
        return DictIterator(self.of, self.what, tx, reversed)

    def length(self, tx: TraceContext) -> Value:
        return self.of.length(tx)

    def truth(self, tx: TraceContext) -> bool:
        return bool(self.of.length(tx).constant())

    def contains(self, tx: TraceContext, item: Value) -> Value:
        if self.what == "keys":
            return self.of.contains(tx, item)
        return Constant(any(tx.objects.is_equal(candidate, item) for candidate in self.list(tx)))

    def as_set(self, tx: TraceContext) -> SetValue | None:
        if self.what == "values":
            return None
        return SetValue({value.key(tx): value for value in self.list(tx)})

    def compare(self, tx: TraceContext, op: Operation, other: Value) -> Value | None:
        left = None if self.what == "values" else other.as_set(tx)
        right = None if left is None else self.as_set(tx)
        return None if left is None or right is None else compare_members(op, right, left)

    def operate(self, tx: TraceContext, op: Operation, other: Value) -> Value | None:
        """Breaks for set operators: C builds the new set in an order of its own."""
        raise self.unsupported_use(op.sign)

    def operate_reflected(self, tx: TraceContext, op: Operation, other: Value) -> Value | None:
        raise self.unsupported_use(op.sign)

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
    type(getattr(cls(), what)()): what for cls in (dict, OrderedDict) for what in ViewValue.classes
}


@wraps(*VIEWS)
def wrap_view(tx: TraceContext, obj: Any, source: Source | None) -> Value:
    path, mapping = require_path(obj, source), gc.get_referents(obj)[0]
    if type(mapping) not in (dict, OrderedDict):
        raise GraphBreak("unsupported-value", f"a view of a {type(mapping).__name__}")
    tx.guards.add(path, Kind.TYPE, type(obj))
    shown = tx.wrap(mapping, ProxiedMapping(path))
    assert isinstance(shown, DictValue)
    return tx.objects.remember(obj, ViewValue(shown, VIEWS[type(obj)], path))
