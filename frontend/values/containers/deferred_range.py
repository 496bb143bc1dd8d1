"""Ranges of numbers that vary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ....errors import GraphBreak
from ....guards.guard import Kind
from ....guards.source import AttrSource, Source
from ..base import Value
from ..constant import Constant
from ..context import TraceContext
from ..deferred_literal import DeferredLiteral
from ..emitter import Emitter
from ..iterators.iterator import (
    UNROLLED_LENGTHS,
    VARYING_LIST,
    Iterator,
    ListedIterator,
    RangeIterator,
)
from ..registry import wraps
from ..tensor.number_arithmetic import calculate
from .range import RangeValue

PARTS = ("start", "stop", "step")


class DeferredRange(DeferredLiteral):
    """range() of numbers that vary. A loop over one whose length varies is left to Python, as one
    that is unrolled is compiled for one length (tracing/interpreter/opcodes/control.py)."""

    __slots__ = ()

    def __init__(self, operands: tuple[Value, ...], source: Source | None = None) -> None:
        super().__init__(range, operands, range)
        self.source = source

    def varies_in_length(self, tx: TraceContext) -> bool:
        return self.symbolic_items(tx) is None

    def symbolic_items(self, tx: TraceContext) -> list[Value] | None:
        """The items of range(n, n + 4), which are symbols; None where the length varies too."""
        if len(self.operands) == 1:
            return None
        start, stop, step = self.parts()
        length = tx.objects.operate("-", stop, start)
        if not isinstance(length, Constant) or not isinstance(step, Constant):
            return None
        offsets = range(0, length.object, step.object)
        if len(offsets) > tx.options.unroll_iterations:
            return None
        return [tx.objects.operate("+", start, Constant(offset)) for offset in offsets]

    def list_items(self, tx: TraceContext) -> list[Value]:
        many = tx.symbols.variation.captures >= UNROLLED_LENGTHS
        if many and not tx.options.fullgraph and self.varies_in_length(tx):
            raise GraphBreak("unsupported-value", VARYING_LIST)
        return super().list_items(tx)

    def as_constant(self) -> RangeValue:
        return RangeValue(self.constant())

    def length(self, tx: TraceContext) -> Value:
        start, stop, step = self.parts()
        found = None
        if isinstance(step, Constant) and step.object == 1:
            count = tx.objects.operate("-", stop, start)
            found = calculate(tx, torch.sym_max, count, Constant(0))
        return found or super().length(tx)

    def truth(self, tx: TraceContext) -> bool:
        return self.length(tx).truth(tx)

    def attribute(self, tx: TraceContext, name: str) -> Value:
        parts = dict(zip(PARTS, self.parts(), strict=True))
        return parts.get(name) or super().attribute(tx, name)

    def parts(self) -> tuple[Value, ...]:
        """Start, stop and step."""
        if len(self.operands) == 1:
            return (Constant(0), *self.operands, Constant(1))
        return (*self.operands, Constant(1))[:3]

    def iterator(self, tx: TraceContext) -> Value:
        return self._iterator(tx, iter)

    def reverse_iterator(self, tx: TraceContext) -> Value:
        return self._iterator(tx, reversed)

    def _iterator(self, tx: TraceContext, function: Callable[[Any], Any]) -> Value:
        items = self.symbolic_items(tx)
        if items is None:
            return DeferredRangeIterator(self, function)
        return ListedIterator([*function(items)], RangeIterator.cls)


@wraps(range)
def wrap_range(tx: TraceContext, obj: range, source: Source | None) -> Value:
    tx.guards.add(source, Kind.TYPE, range)
    parts = [tx.wrap(getattr(obj, part), source and AttrSource(source, part)) for part in PARTS]
    if all(isinstance(part, Constant) for part in parts):
        return RangeValue(obj, source)
    if not isinstance(parts[2], Constant):
        parts[2] = Constant(parts[2].constant())
    return DeferredRange(tuple(parts), source)


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
