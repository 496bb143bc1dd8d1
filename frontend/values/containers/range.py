"""range objects."""

from __future__ import annotations

from ..base import Args, Kwargs, Value
from ..constant import Constant
from ..context import TraceContext
from ..iterators.iterator import RangeIterator


class RangeValue(Constant):
    """A range of known numbers."""

    __slots__ = ()

    def describe(self) -> str:
        return Value.describe(self)

    def method(self, tx: TraceContext, name: str, args: Args, kwargs: Kwargs) -> Value:
        return self.iterator(tx) if name == "__iter__" else super().method(tx, name, args, kwargs)

    def iterator(self, tx: TraceContext) -> Value:
        return RangeIterator(self.object)

    def reverse_iterator(self, tx: TraceContext) -> Value:
        return RangeIterator(self.object[::-1])
