"""Ranges of numbers that vary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base import Value
from ..constant import Constant
from ..context import TraceContext
from ..deferred_literal import DeferredLiteral
from ..emitter import Emitter
from ..iterators.iterator import Iterator, ListedIterator, RangeIterator
from .range import RangeValue


class DeferredRange(DeferredLiteral):
    """range() of numbers that vary. A loop over one whose length varies is left to Python, as one
    that is unrolled is compiled for one length (tracing/interpreter/opcodes/control.py)."""

    __slots__ = ()

    def __init__(self, operands: tuple[Value, ...]) -> None:
        super().__init__(range, operands, range)

    def varies_in_length(self, tx: TraceContext) -> bool:
        return self.symbolic_items(tx) is None

    def symbolic_items(self, tx: TraceContext) -> list[Value] | None:
        """The items of range(n, n + 4), which are symbols; None where the length varies too."""
        if len(self.operands) == 1:
            return None
        start, stop, step = (*self.operands, Constant(1))[:3]
        length = tx.objects.operate("-", stop, start)
        if not isinstance(length, Constant) or not isinstance(step, Constant):
            return None
        offsets = range(0, length.object, step.object)
        if len(offsets) > tx.options.unroll_iterations:
            return None
        return [tx.objects.operate("+", start, Constant(offset)) for offset in offsets]

    def as_constant(self) -> RangeValue:
        return RangeValue(self.constant())

    def iterator(self, tx: TraceContext) -> Value:
        return self._iterator(tx, iter)

    def reverse_iterator(self, tx: TraceContext) -> Value:
        return self._iterator(tx, reversed)

    def _iterator(self, tx: TraceContext, function: Callable[[Any], Any]) -> Value:
        items = self.symbolic_items(tx)
        if items is None:
            return DeferredRangeIterator(self, function)
        return ListedIterator([*function(items)], RangeIterator.cls)


class DeferredRangeIterator(Iterator):
    """iter() or reversed() of a range whose length varies. The numbers are specialised where its
    first item is taken. `taken`: the iterator from then on."""

    __slots__ = ("range", "function", "taken")
    cls = RangeIterator.cls
    state = ("taken",)

    def __init__(self, of: DeferredRange, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.range, self.function = of, function
        self.taken: RangeIterator | None = None

    def varies_in_length(self, tx: TraceContext) -> bool:
        return self.taken is None

    def next(self, tx: TraceContext) -> Value | None:
        if self.taken is None:
            tx.effects.change(self)
            numbers = self.range.constant()
            self.taken = RangeIterator(numbers[::-1] if self.function is reversed else numbers)
        return self.taken.next(tx)

    def reconstruct(self, emit: Emitter) -> None:
        if self.taken is None:
            emit.call(self.function, [self.range])
        else:
            self.taken.reconstruct(emit)
