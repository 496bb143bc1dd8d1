"""itertools, on iterables whose items are known; the endless ones stay lazy."""
from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from ....errors import GraphBreak
from ..base import Value
from ..constant import Constant
from ..facts import Facts
from ..iterator import Iterator, ListedIterator
from ..operate import binary
from ..registry import models
from ..sequence import ListValue, TupleValue

if TYPE_CHECKING:
    from ..context import TraceContext

BATCHED = getattr(itertools, "batched", None)  # since 3.12


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


class ByFunction(Iterator):
    """An iterator that asks a function about the items of another one."""

    __slots__ = ("function", "inner")

    def __init__(self, function: Value, inner: Value) -> None:
        super().__init__()
        self.function, self.inner = function, inner

    def snapshot(self) -> Any:
        return self.function, self.inner

    def restore(self, state: Any) -> None:
        self.function, self.inner = state

    def pull(self, tx: TraceContext) -> Value | None:
        """The next item of the inner iterator."""
        item = self.inner.next(tx)
        return None if item is None else tx.look(item)

    def holds(self, tx: TraceContext, item: Value) -> bool:
        return self.function.call(tx, [item], {}).truth(tx)


class TakeWhile(ByFunction):
    """itertools.takewhile; once it has stopped it walks nothing."""

    __slots__ = ()
    cls = itertools.takewhile

    def next(self, tx: TraceContext) -> Value | None:
        item = self.pull(tx)
        if item is None or self.holds(tx, item):
            return item
        tx.effects.change(self)
        self.inner = TupleValue([]).iterator(tx)
        return None


class DropWhile(ByFunction):
    """itertools.dropwhile; once it has started no item is dropped."""

    __slots__ = ()
    cls = itertools.dropwhile

    def next(self, tx: TraceContext) -> Value | None:
        item = self.pull(tx)
        while item is not None and not (self.function.is_constant() and self.function.constant() is bool_of_none):
            if not self.holds(tx, item):
                tx.effects.change(self)
                self.function = Facts(bool_of_none)
                break
            item = self.pull(tx)
        return item


def bool_of_none(item: Any) -> bool:
    """The function of a dropwhile that has started."""
    return False


class FilterFalse(ByFunction):
    """itertools.filterfalse."""

    __slots__ = ()
    cls = itertools.filterfalse

    def next(self, tx: TraceContext) -> Value | None:
        by_truth = self.function.is_constant() and self.function.constant() is None
        while (item := self.pull(tx)) is not None:
            if not (item.truth(tx) if by_truth else self.holds(tx, item)):
                return item
        return None


class StarMap(ByFunction):
    """itertools.starmap."""

    __slots__ = ()
    cls = itertools.starmap

    def next(self, tx: TraceContext) -> Value | None:
        item = self.pull(tx)
        return None if item is None else self.function.call(tx, tx.unpack(item), {})


class Compress(Iterator):
    """itertools.compress."""

    __slots__ = ("inner", "selectors")
    cls = itertools.compress

    def __init__(self, inner: Value, selectors: Value) -> None:
        super().__init__()
        self.inner, self.selectors = inner, selectors

    def snapshot(self) -> Any:
        return None

    def restore(self, state: Any) -> None:
        pass

    def next(self, tx: TraceContext) -> Value | None:
        while (item := self.inner.next(tx)) is not None:
            selector = self.selectors.next(tx)
            if selector is None:
                return None
            if tx.look(selector).truth(tx):
                return tx.look(item)
        return None


class GroupBy(Iterator):
    """itertools.groupby: groups share its inner iterator, and asking for the next group skips the rest of the current one."""

    __slots__ = ("inner", "key", "born", "at", "ahead", "current")
    cls = itertools.groupby

    def __init__(self, inner: Value, key: Value | None, born: int) -> None:
        super().__init__()
        self.inner, self.key, self.born = inner, key, born
        self.ahead: tuple[Value, Value] | None = None  # (key, item) read and not given yet
        self.at: Value | None = None  # key of the current group
        self.current: Group | None = None

    def snapshot(self) -> Any:
        return self.ahead, self.at, self.current

    def restore(self, state: Any) -> None:
        self.ahead, self.at, self.current = state

    def read(self, tx: TraceContext) -> bool:
        """Reads the item ahead, unless that is there; whether there is one."""
        if self.ahead is None:
            item = self.inner.next(tx)
            if item is None:
                return False
            item = tx.look(item)
            key = item if self.key is None else self.key.call(tx, [item], {})
            tx.effects.change(self)
            self.ahead = (key, item)
        return True

    def next(self, tx: TraceContext) -> Value | None:
        while self.read(tx):
            assert self.ahead is not None
            key = self.ahead[0]
            if self.at is None or not tx.equal(self.at, key):
                tx.effects.change(self)
                self.at, self.current = key, Group(self, key)
                return TupleValue([key, self.current])
            tx.effects.change(self)
            self.ahead = None
        return None


class Group(Iterator):
    """One group of an itertools.groupby."""

    __slots__ = ("of", "key", "born")
    cls = type(next(itertools.groupby([1]))[1])

    def __init__(self, of: GroupBy, key: Value) -> None:
        super().__init__()
        self.of, self.key, self.born = of, key, of.born

    def snapshot(self) -> Any:
        return None

    def restore(self, state: Any) -> None:
        pass

    def next(self, tx: TraceContext) -> Value | None:
        of = self.of
        if of.current is not self or not of.read(tx):
            return None
        assert of.ahead is not None
        key, item = of.ahead
        if not tx.equal(self.key, key):
            return None
        tx.effects.change(of)
        of.ahead = None
        return item


class Tee(Iterator):
    """One of the iterators that itertools.tee makes: items read by any are kept for the others."""

    __slots__ = ("inner", "read", "index", "born")
    cls = type(itertools.tee([])[0])

    def __init__(self, inner: Value, read: ListValue, born: int) -> None:
        super().__init__()
        self.inner, self.read, self.index, self.born = inner, read, 0, born

    def snapshot(self) -> Any:
        return self.index

    def restore(self, state: Any) -> None:
        self.index = state

    def next(self, tx: TraceContext) -> Value | None:
        if self.index == len(self.read.items):
            item = self.inner.next(tx)
            if item is None:
                return None
            tx.effects.change(self.read)
            self.read.items.append(tx.look(item))
        tx.effects.change(self)
        self.index += 1
        return self.read.items[self.index - 1]


@models(itertools.takewhile)
def takewhile(tx: TraceContext, function: Value, iterable: Value) -> Value:
    return TakeWhile(function, iterable.iterator(tx))


@models(itertools.dropwhile)
def dropwhile(tx: TraceContext, function: Value, iterable: Value) -> Value:
    return DropWhile(function, iterable.iterator(tx))


@models(itertools.filterfalse)
def filterfalse(tx: TraceContext, function: Value, iterable: Value) -> Value:
    return FilterFalse(function, iterable.iterator(tx))


@models(itertools.starmap)
def starmap(tx: TraceContext, function: Value, iterable: Value) -> Value:
    return StarMap(function, iterable.iterator(tx))


@models(itertools.compress)
def compress(tx: TraceContext, data: Value, selectors: Value) -> Value:
    return Compress(data.iterator(tx), selectors.iterator(tx))


@models(itertools.groupby)
def groupby(tx: TraceContext, iterable: Value, key: Value | None = None) -> Value:
    by_item = key is None or (key.is_constant() and key.constant() is None)
    return GroupBy(iterable.iterator(tx), None if by_item else key, tx.place())


@models(itertools.tee)
def tee(tx: TraceContext, iterable: Value, n: Value | None = None) -> Value:
    inner, read, born = iterable.iterator(tx), ListValue([]), tx.place()
    return TupleValue([Tee(inner, read, born) for _ in range(2 if n is None else n.constant())])


@models(itertools.combinations_with_replacement)
def combinations_with_replacement(tx: TraceContext, iterable: Value, r: Value) -> Value:
    made = itertools.combinations_with_replacement(tx.unpack(iterable), r.constant())
    return ListedIterator([TupleValue(list(c)) for c in made], itertools.combinations_with_replacement)


if BATCHED is not None:

    @models(BATCHED)
    def batched(tx: TraceContext, iterable: Value, n: Value, **options: Value) -> Value:
        items, size = tx.unpack(iterable), n.constant()
        if options or size < 1:
            raise GraphBreak("unknown-call", "itertools.batched() with these arguments")
        return ListedIterator([TupleValue(items[i : i + size]) for i in range(0, len(items), size)], BATCHED)
