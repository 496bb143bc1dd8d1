"""range objects."""

from __future__ import annotations

from typing import Any

from ....guards.guard import Kind
from ....guards.source import AttrSource, Source
from ..base import Value
from ..constant import Constant, fold
from ..context import TraceContext
from ..emitter import Emitter
from ..iterators.iterator import RangeIterator
from ..registry import wraps


class RangeValue(Value):
    """A range of known numbers."""

    __slots__ = ("range",)
    is_code_constant = True

    def __init__(self, of: range, source: Source | None = None) -> None:
        super().__init__(source)
        self.range = of

    def python_type(self) -> type:
        return range

    def is_constant(self) -> bool:
        return True

    def constant(self) -> Any:
        return self.range

    def key(self, tx: TraceContext) -> Any:
        return self.range

    def truth(self, tx: TraceContext) -> bool:
        return bool(self.range)

    def attribute(self, tx: TraceContext, name: str) -> Value:
        if name in ("start", "stop", "step"):
            return Constant(getattr(self.range, name))
        if not hasattr(range, name):
            raise tx.exceptions.no_attribute("range", name)
        return tx.make.bound_method(self, name)

    def method(
        self, tx: TraceContext, name: str, args: list[Value], kwargs: dict[str, Value]
    ) -> Value:
        if name == "__iter__":
            return self.iterator(tx)
        return fold(tx, getattr(self.range, name), args, kwargs)

    def iterator(self, tx: TraceContext) -> Value:
        return RangeIterator(self.range)

    def length(self, tx: TraceContext) -> Value:
        try:
            return Constant(len(self.range))
        except OverflowError as error:
            raise tx.exceptions.new(OverflowError, *error.args) from None

    def item(self, tx: TraceContext, key: Value) -> Value:
        return fold(tx, lambda obj, index: obj[index], [self, key], {})

    def contains(self, tx: TraceContext, item: Value) -> Value:
        return fold(tx, lambda obj, other: other in obj, [self, item], {})

    def reconstruct(self, emit: Emitter) -> None:
        emit.push_literal(self.range)


@wraps(range)
def wrap_range(tx: TraceContext, obj: range, source: Source | None) -> Value:
    tx.guards.add(source, Kind.TYPE, range)
    for part in ("start", "stop", "step"):
        tx.guards.add(source and AttrSource(source, part), Kind.EQUALS, getattr(obj, part))
    return RangeValue(obj, source)
