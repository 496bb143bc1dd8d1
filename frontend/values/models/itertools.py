"""itertools, on iterables whose items are known; the endless ones stay lazy."""
from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from ..base import Value
from ..constant import Constant
from ..iterator import Iterator, ListedIterator
from ..operate import binary
from ..registry import models
from ..sequence import TupleValue

if TYPE_CHECKING:
    from ..context import TraceContext


class Count(Iterator):
    """itertools.count(value, step)."""

    __slots__ = ("value", "step")
    cls = itertools.count

    def __init__(self, value: Any, step: Any) -> None:
        super().__init__()
        self.value, self.step = value, step

    def snapshot(self) -> Any:
        return self.value

    def restore(self, state: Any) -> None:
        self.value = state

    def next(self, tx: TraceContext) -> Value:
        tx.effects.change(self)
        self.value += self.step
        return Constant(self.value - self.step)


class Cycle(Iterator):
    """itertools.cycle over known items, and endless itertools.repeat."""

    __slots__ = ("items", "index")
    cls = itertools.cycle

    def __init__(self, items: list[Value]) -> None:
        super().__init__()
        self.items, self.index = items, 0

    def snapshot(self) -> Any:
        return self.index

    def restore(self, state: Any) -> None:
        self.index = state

    def next(self, tx: TraceContext) -> Value | None:
        if not self.items:
            return None
        tx.effects.change(self)
        self.index += 1
        return self.items[(self.index - 1) % len(self.items)]


class Chain(Iterator):
    """itertools.chain: the iterators still to come."""

    __slots__ = ("rest",)
    cls = itertools.chain

    def __init__(self, rest: list[Value]) -> None:
        super().__init__()
        self.rest = rest

    def snapshot(self) -> Any:
        return list(self.rest)

    def restore(self, state: Any) -> None:
        self.rest = state

    def next(self, tx: TraceContext) -> Value | None:
        while self.rest:
            item = self.rest[0].next(tx)
            if item is not None:
                return item
            tx.effects.change(self)
            self.rest.pop(0)
        return None


@models(itertools.count)
def count(tx: TraceContext, start: Value | None = None, step: Value | None = None) -> Value:
    return Count(0 if start is None else start.constant(), 1 if step is None else step.constant())


@models(itertools.cycle)
def cycle(tx: TraceContext, items: Value) -> Value:
    return Cycle(tx.unpack(items))


@models(itertools.repeat)
def repeat(tx: TraceContext, item: Value, times: Value | None = None) -> Value:
    return Cycle([item]) if times is None else ListedIterator([item] * times.constant(), itertools.repeat)


@models(itertools.chain)
def chain(tx: TraceContext, *iterables: Value) -> Value:
    return Chain([iterable.iterator(tx) for iterable in iterables])


@models(itertools.chain.from_iterable)
def chain_from_iterable(tx: TraceContext, iterables: Value) -> Value:
    return Chain([iterable.iterator(tx) for iterable in tx.unpack(iterables)])


@models(itertools.islice)
def islice(tx: TraceContext, iterable: Value, *bounds: Value) -> Value:
    limits = [bound.constant() for bound in bounds]
    start, stop, step = (0, limits[0], 1) if len(limits) == 1 else (limits[0] or 0, limits[1], (*limits, None)[2] or 1)
    iterator, taken = iterable.iterator(tx), []
    index = 0
    while stop is None or index < stop:
        item = iterator.next(tx)
        if item is None:
            break
        if index >= start and (index - start) % step == 0:
            taken.append(item)
        index += 1
    return ListedIterator(taken, itertools.islice)


def _tuples(tx: TraceContext, function: Any, iterables: tuple[Value, ...], **options: Any) -> Value:
    """Runs one of itertools' combinations on known items."""
    return ListedIterator([TupleValue(list(c)) for c in function(*(tx.unpack(i) for i in iterables), **options)], function)


@models(itertools.product)
def product(tx: TraceContext, *iterables: Value, repeat: Value | None = None) -> Value:
    return _tuples(tx, itertools.product, iterables, repeat=1 if repeat is None else repeat.constant())


@models(itertools.zip_longest)
def zip_longest(tx: TraceContext, *iterables: Value, fillvalue: Value | None = None) -> Value:
    return _tuples(tx, itertools.zip_longest, iterables, fillvalue=fillvalue or Constant(None))


@models(itertools.pairwise)
def pairwise(tx: TraceContext, iterable: Value) -> Value:
    return _tuples(tx, itertools.pairwise, (iterable,))


@models(itertools.combinations)
def combinations(tx: TraceContext, iterable: Value, r: Value) -> Value:
    items = tx.unpack(iterable)
    return ListedIterator([TupleValue(list(c)) for c in itertools.combinations(items, r.constant())], itertools.combinations)


@models(itertools.permutations)
def permutations(tx: TraceContext, iterable: Value, r: Value | None = None) -> Value:
    items = tx.unpack(iterable)
    size = None if r is None else r.constant()
    return ListedIterator([TupleValue(list(c)) for c in itertools.permutations(items, size)], itertools.permutations)


@models(itertools.accumulate)
def accumulate(tx: TraceContext, iterable: Value, function: Value | None = None, *, initial: Value | None = None) -> Value:
    items = tx.unpack(iterable)
    if initial is not None and not (initial.is_constant() and initial.constant() is None):
        items = [initial, *items]
    totals: list[Value] = []
    for item in items:
        if totals:
            item = binary(tx, "+", totals[-1], item) if function is None else function.call(tx, [totals[-1], item], {})
        totals.append(item)
    return ListedIterator(totals, itertools.accumulate)


@models(itertools.starmap)
def starmap(tx: TraceContext, function: Value, iterable: Value) -> Value:
    return ListedIterator([function.call(tx, tx.unpack(item), {}) for item in tx.unpack(iterable)], itertools.starmap)
