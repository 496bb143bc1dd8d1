"""itertools, on iterables whose items are known. Endless iterators stay lazy."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import torch

from ....errors import GraphBreak
from ....guards.iterators import advance
from ..base import Value
from ..constant import Constant
from ..containers.sequence import SequenceIterator, TupleValue
from ..context import TraceContext
from ..emitter import Emitter
from ..iterators.iterator import Iterator, inner_iterator
from ..operators import binary
from ..registry import models


class Count(Iterator):
    """itertools.count(value, step)."""

    __slots__ = ("value", "step")
    cls = itertools.count
    state = ("value",)

    def __init__(self, value: Value, step: Value) -> None:
        super().__init__()
        self.value, self.step = value, step

    def next(self, tx: TraceContext) -> Value:
        given = self.value
        following = binary(tx, "+", given, self.step)
        tx.effects.change(self)
        self.value = following
        return given

    def reconstruct(self, emit: Emitter) -> None:
        emit.call(itertools.count, [self.value, self.step])


class Repeat(Iterator):
    """itertools.repeat. `left` is None for an endless one."""

    __slots__ = ("repeated", "left")
    cls = itertools.repeat
    state = ("left",)

    def __init__(self, item: Value, left: int | None) -> None:
        super().__init__()
        self.repeated, self.left = item, left

    def next(self, tx: TraceContext) -> Value | None:
        if self.left is not None:
            if self.left <= 0:
                return None
            tx.effects.change(self)
            self.left -= 1
        return self.repeated

    def reconstruct(self, emit: Emitter) -> None:
        times = [] if self.left is None else [emit.const(self.left)]
        emit.call(itertools.repeat, [self.repeated, *times])


class ArrangementIterator(Iterator):
    """itertools.product, combinations or permutations (`arrange`) of `pools`. `index` counts the
    items that were returned."""

    __slots__ = ("arrange", "pools", "options", "all", "index")

    def __init__(
        self, arrange: type, pools: list[list[Value]], options: Mapping[str, int | None]
    ) -> None:
        super().__init__()
        self.arrange, self.pools, self.options = arrange, pools, options
        self.index = 0
        self.all = self._from_start()

    def python_type(self) -> type:
        return self.arrange

    def _from_start(self) -> Any:
        return self.arrange(*self.pools, **self.options)

    def snapshot(self) -> Any:
        return self.index

    def restore(self, state: Any) -> None:
        self.index = state
        self.all = itertools.islice(self._from_start(), state, None)

    def next(self, tx: TraceContext) -> Value | None:
        tx.effects.change(self)
        items = next(self.all, None)
        if items is None:
            return None
        self.index += 1
        return TupleValue(list(items))

    def reconstruct(self, emit: Emitter) -> None:
        pools = [TupleValue(list(pool)) for pool in self.pools]
        options = map(emit.const, self.options.values())
        emit.call(self.arrange, [*pools, *options], tuple(self.options))
        emit.run_on_top(advance, self.index, False)


class Pairwise(Iterator):
    """itertools.pairwise. `last` is the item that the next pair starts with; None before the first
    pair, and after the end."""

    __slots__ = ("inner", "last", "ended")
    cls = itertools.pairwise
    state = ("last", "ended")

    def __init__(self, inner: Value) -> None:
        super().__init__()
        self.inner = inner
        self.last: Value | None = None
        self.ended = False

    def varies_in_length(self, tx: TraceContext) -> bool:
        return self.inner.varies_in_length(tx)

    def next(self, tx: TraceContext) -> Value | None:
        if self.ended:
            return None
        first = self.inner.next(tx) if self.last is None else self.last
        second = None if first is None else self.inner.next(tx)
        tx.effects.change(self)
        self.last, self.ended = second, second is None
        return None if first is None or second is None else TupleValue([first, second])

    def reconstruct(self, emit: Emitter) -> None:
        if self.ended:
            emit.call(itertools.pairwise, [emit.const(())])
            return
        last = TupleValue([] if self.last is None else [self.last])
        rest = inner_iterator(emit, self.inner)
        emit.call(itertools.pairwise, [lambda: emit.call(itertools.chain, [last, rest])])


class ZipLongest(Iterator):
    """itertools.zip_longest. An inner iterator that has ended is None."""

    __slots__ = ("inners", "fill")
    cls = itertools.zip_longest
    state = ("inners",)

    def __init__(self, inners: list[Value], fill: Value) -> None:
        super().__init__()
        self.inners: tuple[Value | None, ...] = tuple(inners)
        self.fill = fill

    def varies_in_length(self, tx: TraceContext) -> bool:
        return any(inner is not None and inner.varies_in_length(tx) for inner in self.inners)

    def next(self, tx: TraceContext) -> Value | None:
        items = [None if inner is None else inner.next(tx) for inner in self.inners]
        tx.effects.change(self)
        self.inners = tuple(
            None if item is None else inner for item, inner in zip(items, self.inners, strict=True)
        )
        if not any(self.inners):
            return None
        return TupleValue([self.fill if item is None else item for item in items])

    def reconstruct(self, emit: Emitter) -> None:
        inners = [
            emit.const(()) if inner is None else inner_iterator(emit, inner)
            for inner in self.inners
        ]
        emit.call(itertools.zip_longest, [*inners, self.fill], ("fillvalue",))


class Slice(Iterator):
    """itertools.islice: `at` items of the inner iterator are read, `wanted` is the next one
    given."""

    __slots__ = ("inner", "at", "wanted", "stop", "step")
    cls = itertools.islice
    state = ("inner", "at", "wanted")

    def __init__(self, inner: Value, start: int, stop: int | None, step: int) -> None:
        super().__init__()
        self.inner: Value | None = inner
        self.at, self.wanted, self.stop, self.step = 0, start, stop, step

    def next(self, tx: TraceContext) -> Value | None:
        """The next item of an islice: skips to the wanted position first."""
        if self.inner is None:
            return None
        while self.at < self.wanted:
            if not self._read(tx):
                return None
        if self.stop is not None and self.at >= self.stop:
            tx.effects.change(self)
            self.inner = None
            return None
        item = self._read(tx)
        if item is not None:
            following = self.wanted + self.step
            self.wanted = following if self.stop is None else min(following, self.stop)
        return item

    def _read(self, tx: TraceContext) -> Value | None:
        assert self.inner is not None
        item = self.inner.next(tx)
        tx.effects.change(self)
        tx.work.count()
        self.at += 1
        if item is None:
            self.inner = None
        return item

    def reconstruct(self, emit: Emitter) -> None:
        if self.inner is None:
            emit.call(itertools.islice, [emit.const(()), emit.const(0)])
            return
        stop = None if self.stop is None else max(0, self.stop - self.at)
        bounds = map(emit.const, (self.wanted - self.at, stop, self.step))
        emit.call(itertools.islice, [inner_iterator(emit, self.inner), *bounds])


class Flat(Iterator):
    """itertools.chain.from_iterable. Iterables are opened one by one."""

    __slots__ = ("outer", "current")
    cls = itertools.chain
    state = ("outer", "current")

    def __init__(self, outer: Value) -> None:
        super().__init__()
        self.outer: Value | None = outer
        self.current: Value | None = None

    def next(self, tx: TraceContext) -> Value | None:
        """The next item of the current iterator, or of the first iterable after it that has one."""
        while self.outer is not None:
            if self.current is None:
                following = self.outer.next(tx)
                tx.effects.change(self)
                if following is None:
                    self.outer = None
                    return None
                self.current = tx.look(following).iterator(tx)
            item = self.current.next(tx)
            if item is not None:
                return item
            tx.effects.change(self)
            tx.work.count()
            self.current = None
        return None

    def reconstruct(self, emit: Emitter) -> None:
        rest = self.outer or SequenceIterator(TupleValue([]))
        if self.current is None:
            emit.call(itertools.chain.from_iterable, [inner_iterator(emit, rest)])
            return
        opened = self.current  # the iterable that is open, then the others

        def push_opened() -> None:
            inner_iterator(emit, opened)()
            emit.builder.build_list(1)

        iterables = [push_opened, inner_iterator(emit, rest)]
        emit.call(itertools.chain.from_iterable, [lambda: emit.call(itertools.chain, iterables)])


@models(itertools.count)
def count(tx: TraceContext, start: Value | None = None, step: Value | None = None) -> Value:
    if not all(
        given is None or issubclass(given.python_type(), int | float | complex | torch.Tensor)
        for given in (start, step)
    ):
        raise GraphBreak("unknown-call", "itertools.count() with an argument that is no number")
    return Count(start or Constant(0), step or Constant(1))


@models(itertools.repeat)
def repeat(tx: TraceContext, object: Value, times: Value | None = None) -> Value:
    return Repeat(object, None if times is None else max(0, int_argument(tx, times)))


def int_argument(tx: TraceContext, value: Value) -> int:
    """An int argument of a C function. Breaks for others, which Python may refuse."""
    found = value.constant()
    if not isinstance(found, int):
        raise GraphBreak("unknown-call", "itertools with an argument that is no int")
    return found


@models(itertools.chain)
def chain(tx: TraceContext, *iterables: Value) -> Value:
    return Flat(TupleValue(list(iterables)).iterator(tx))


@models(itertools.chain.from_iterable)
def chain_from_iterable(tx: TraceContext, iterables: Value) -> Value:
    return Flat(iterables.iterator(tx))


@models(itertools.islice)
def islice(tx: TraceContext, iterable: Value, *bounds: Value) -> Value:
    limits = [bound.constant() for bound in bounds]
    if not 1 <= len(limits) <= 3 or not all(
        limit is None or (type(limit) is int and limit >= 0) for limit in limits
    ):
        raise GraphBreak("unknown-call", "itertools.islice() with these arguments")
    start, stop, step = (
        (0, limits[0], 1) if len(limits) == 1 else (limits[0] or 0, limits[1], (*limits, None)[2])
    )
    if step == 0:
        raise GraphBreak("unknown-call", "itertools.islice() with these arguments")
    return Slice(iterable.iterator(tx), start, stop, step or 1)


@models(itertools.product)
def product(tx: TraceContext, *iterables: Value, repeat: Value | None = None) -> Value:
    options = {} if repeat is None else {"repeat": int_argument(tx, repeat)}
    pools = [iterable.unpack(tx) for iterable in iterables]
    return ArrangementIterator(itertools.product, pools, options)


@models(itertools.combinations)
def combinations(tx: TraceContext, iterable: Value, r: Value) -> Value:
    return ArrangementIterator(itertools.combinations, [iterable.unpack(tx)], {"r": length(tx, r)})


@models(itertools.permutations)
def permutations(tx: TraceContext, iterable: Value, r: Value | None = None) -> Value:
    options = {"r": None if r is None or r.is_none() else length(tx, r)}
    return ArrangementIterator(itertools.permutations, [iterable.unpack(tx)], options)


def length(tx: TraceContext, value: Value) -> int:
    """The length of the tuples that an iterator returns. Breaks for a negative one, which Python
    refuses."""
    found = int_argument(tx, value)
    if found < 0:
        raise GraphBreak("unknown-call", "itertools with a negative length")
    return found


@models(itertools.pairwise)
def pairwise(tx: TraceContext, iterable: Value, /) -> Value:
    iterable = tx.look(iterable)
    if iterable.iterates_in_python():  # the StopIteration of its first next() is the one raised
        raise GraphBreak("unknown-call", "itertools.pairwise of an iterator written in Python")
    return Pairwise(iterable.iterator(tx))


@models(itertools.zip_longest)
def zip_longest(tx: TraceContext, *iterables: Value, fillvalue: Value | None = None) -> Value:
    inners = [iterable.iterator(tx) for iterable in iterables]
    return ZipLongest(inners, Constant(None) if fillvalue is None else fillvalue)
