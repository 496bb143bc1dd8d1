"""range objects."""

from __future__ import annotations

from ....guards.guard import Kind
from ....guards.source import AttrSource, Source
from ..base import Value
from ..constant import Constant
from ..context import TraceContext
from ..iterators.iterator import RangeIterator
from ..registry import wraps


class RangeValue(Constant):
    """A range of known numbers."""

    __slots__ = ()

    def describe(self) -> str:
        return Value.describe(self)

    def method(
        self, tx: TraceContext, name: str, args: list[Value], kwargs: dict[str, Value]
    ) -> Value:
        return self.iterator(tx) if name == "__iter__" else super().method(tx, name, args, kwargs)

    def iterator(self, tx: TraceContext) -> Value:
        return RangeIterator(self.object)

    def reverse_iterator(self, tx: TraceContext) -> Value:
        return RangeIterator(self.object[::-1])


@wraps(range)
def wrap_range(tx: TraceContext, obj: range, source: Source | None) -> Value:
    tx.guards.add(source, Kind.TYPE, range)
    for part in ("start", "stop", "step"):
        tx.guards.add(source and AttrSource(source, part), Kind.EQUALS, getattr(obj, part))
    return RangeValue(obj, source)
