"""itertools, on iterables whose items are known; the endless ones stay lazy."""
from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from ....errors import GraphBreak
from ....guards.iterators import GROUP
from ....guards.source import Source
from ..base import Observed, Value
from ..constant import Constant
from ..facts import Facts
from ..iterator import Iterator
from ..operate import binary
from ..registry import models
from ..sequence import ListValue, TupleValue

if TYPE_CHECKING:
    from ..context import TraceContext

BATCHED = getattr(itertools, "batched", None)  # since 3.12


def _has_strict(made: Any) -> bool:
    try:
        return bool(made((), 1, strict=True))
    except TypeError:
        return False


BATCHES_MAY_BE_STRICT = _has_strict(BATCHED)


class Count(Iterator):
    """itertools.count(value, step)."""

    __slots__ = ("value", "step")
    cls = itertools.count
    moves = ("value",)

    def __init__(self, value: Value, step: Value, source: Source | None = None) -> None:
        super().__init__(source)
        self.value, self.step = value, step

    def next(self, tx: TraceContext) -> Value:
        given = self.value
        following = binary(tx, "+", given, self.step)
        tx.effects.change(self)
        self.value = following
        return given


class Cycle(Iterator):
    """itertools.cycle: reads an iterator once, and gives what it has read from then on."""

    __slots__ = ("inner", "items", "index")
    cls = itertools.cycle
    moves = ("inner", "items", "index")

    def __init__(self, inner: Value | None) -> None:
        super().__init__()
        self.inner = inner
        self.items: list[Value] = []
        self.index = 0

    def next(self, tx: TraceContext) -> Value | None:
        item = None if self.inner is None else self.inner.next(tx)
        tx.effects.change(self)
        if item is not None:
            self.items.append(tx.look(item))
            return self.items[-1]
        self.inner = None
        if not self.items:
            return None
        self.index += 1
        return self.items[(self.index - 1) % len(self.items)]


class Repeat(Iterator):
    """itertools.repeat; `left` is None for ever."""

    __slots__ = ("item", "left")
    cls = itertools.repeat
    moves = ("left",)

    def __init__(self, item: Value, left: int | None) -> None:
        super().__init__()
        self.item, self.left = item, left

    def next(self, tx: TraceContext) -> Value | None:
        if self.left is not None:
            if self.left <= 0:
                return None
            tx.effects.change(self)
            self.left -= 1
        return self.item


class Pooled(Iterator):
    """product, combinations and their kin: what they give is known when they are made. `pools` and `options` made it."""

    __slots__ = ("cls", "pools", "options", "all", "index")

    def __init__(self, cls: type, pools: list[list[Value]], options: dict[str, Any]) -> None:
        super().__init__()
        self.cls, self.pools, self.options = cls, pools, options
        self.all = cls(*pools, **options)
        self.index = 0

    def snapshot(self) -> Any:
        return self.index

    def restore(self, state: Any) -> None:
        self.index = state
        self.all = itertools.islice(self.cls(*self.pools, **self.options), state, None)

    def next(self, tx: TraceContext) -> Value | None:
        tx.effects.change(self)
        items = next(self.all, None)
        if items is None:
            return None
        self.index += 1
        return TupleValue(list(items))


class Slice(Iterator):
    """itertools.islice: `at` items of the inner iterator are read, `wanted` is the next one given."""

    __slots__ = ("inner", "at", "wanted", "stop", "step")
    cls = itertools.islice
    moves = ("inner", "at", "wanted")

    def __init__(self, inner: Value, start: int, stop: int | None, step: int) -> None:
        super().__init__()
        self.inner: Value | None = inner
        self.at, self.wanted, self.stop, self.step = 0, start, stop, step

    def next(self, tx: TraceContext) -> Value | None:
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
        tx.count_instruction()
        self.at += 1
        if item is None:
            self.inner = None
        return item


class Accumulate(Iterator):
    """itertools.accumulate. `pending`: a start that has not been given yet."""

    __slots__ = ("inner", "function", "total", "pending")
    cls = itertools.accumulate
    moves = ("total", "pending")

    def __init__(self, inner: Value, function: Value | None, initial: Value | None, source: Source | None = None) -> None:
        super().__init__(source)
        self.inner, self.function, self.total, self.pending = inner, function, initial, initial is not None

    def next(self, tx: TraceContext) -> Value | None:
        if self.pending:
            tx.effects.change(self)
            self.pending = False
            return self.total
        item = self.inner.next(tx)
        if item is None:
            return None
        item = tx.look(item)
        if self.total is not None:
            total = tx.look(self.total)
            item = binary(tx, "+", total, item) if self.function is None else self.function.call(tx, [total, item], {})
        tx.effects.change(self)
        self.total = item
        return item


class ZipLongest(Iterator):
    """itertools.zip_longest; None stands for an iterator that has ended."""

    __slots__ = ("inners", "fill")
    cls = itertools.zip_longest
    moves = ("inners",)

    def __init__(self, inners: Sequence[Value | None], fill: Value, source: Source | None = None) -> None:
        super().__init__(source)
        self.inners = list(inners)
        self.fill = fill

    def next(self, tx: TraceContext) -> Value | None:
        items: list[Value] = []
        if not any(inner is not None for inner in self.inners):
            return None
        for position, inner in enumerate(self.inners):
            try:
                item = None if inner is None else inner.next(tx)
            except Observed:
                tx.effects.change(self)
                self.inners = [None] * len(self.inners)  # an error ends it
                raise
            if item is None and inner is not None:
                tx.effects.change(self)
                self.inners[position] = None
                if not any(other is not None for other in self.inners):
                    return None
            items.append(self.fill if item is None else item)
        return TupleValue(items)


class Pairwise(Iterator):
    """itertools.pairwise; `old` is the item that the next pair begins with."""

    __slots__ = ("inner", "old", "busy")
    cls = itertools.pairwise
    moves = ("inner", "old")

    def __init__(self, inner: Value) -> None:
        super().__init__()
        self.inner: Value | None = inner
        self.old: Value | None = None
        self.busy = False

    def next(self, tx: TraceContext) -> Value | None:
        if self.busy:  # asked by the iterator that it asks: versions of Python differ
            raise self.unsupported("next() inside of its next()")
        if self.inner is None:
            return None
        self.busy = True
        try:
            if self.old is None:
                first = self.inner.next(tx)
                tx.effects.change(self)
                self.old = first
            new = None if self.old is None else self.inner.next(tx)
        finally:
            self.busy = False
        tx.effects.change(self)
        if new is None or self.old is None:
            self.inner = self.old = None
            return None
        pair = TupleValue([self.old, new])
        self.old = new
        return pair


class Batches(Iterator):
    """itertools.batched; `strict`: the last batch must be as long as the others."""

    __slots__ = ("inner", "size", "strict")
    cls = BATCHED or object
    moves = ("inner",)

    def __init__(self, inner: Value | None, size: int, strict: bool, source: Source | None = None) -> None:
        super().__init__(source)
        self.inner, self.size, self.strict = inner, size, strict

    def next(self, tx: TraceContext) -> Value | None:
        if self.inner is None:
            return None
        items: list[Value] = []
        try:
            while len(items) < self.size and (item := self.inner.next(tx)) is not None:
                items.append(tx.look(item))
        except Observed:
            self._end(tx)
            raise
        if not items or (self.strict and len(items) < self.size):
            self._end(tx)
            if items:
                raise tx.throw(ValueError, "batched(): incomplete batch")
        return TupleValue(items) if items else None

    def _end(self, tx: TraceContext) -> None:
        tx.effects.change(self)
        self.inner = None


class Flat(Iterator):
    """itertools.chain.from_iterable: iterables are asked for as they come."""

    __slots__ = ("outer", "current")
    cls = itertools.chain
    moves = ("outer", "current")

    def __init__(self, outer: Value) -> None:
        super().__init__()
        self.outer: Value | None = outer
        self.current: Value | None = None

    def next(self, tx: TraceContext) -> Value | None:
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
            tx.count_instruction()
            self.current = None
        return None


@models(itertools.count)
def count(tx: TraceContext, start: Value | None = None, step: Value | None = None) -> Value:
    if not all(given is None or issubclass(given.python_type(), int | float | complex | torch.Tensor) for given in (start, step)):
        raise GraphBreak("unknown-call", "itertools.count() with an argument that is no number")
    return Count(start or Constant(0), step or Constant(1))


@models(itertools.cycle)
def cycle(tx: TraceContext, items: Value) -> Value:
    return Cycle(items.iterator(tx))


@models(itertools.repeat)
def repeat(tx: TraceContext, object: Value, times: Value | None = None) -> Value:  # noqa: A002 - Python's name for it
    return Repeat(object, None if times is None else max(0, number(tx, times)))


def number(tx: TraceContext, value: Value) -> int:
    """An int argument of a C function; what raises in it is Python's to raise."""
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
    if not 1 <= len(limits) <= 3 or not all(limit is None or (type(limit) is int and limit >= 0) for limit in limits):
        raise GraphBreak("unknown-call", "itertools.islice() with these arguments")
    start, stop, step = (0, limits[0], 1) if len(limits) == 1 else (limits[0] or 0, limits[1], (*limits, None)[2])
    if step == 0:
        raise GraphBreak("unknown-call", "itertools.islice() with these arguments")
    return Slice(iterable.iterator(tx), start, stop, step or 1)


@models(itertools.product)
def product(tx: TraceContext, *iterables: Value, repeat: Value | None = None) -> Value:
    options = {} if repeat is None else {"repeat": number(tx, repeat)}
    return Pooled(itertools.product, [tx.unpack(iterable) for iterable in iterables], options)


@models(itertools.zip_longest)
def zip_longest(tx: TraceContext, *iterables: Value, fillvalue: Value | None = None) -> Value:
    return ZipLongest([iterable.iterator(tx) for iterable in iterables], fillvalue or Constant(None))


@models(itertools.pairwise)
def pairwise(tx: TraceContext, iterable: Value, /) -> Value:
    return Pairwise(iterable.iterator(tx))


@models(itertools.combinations)
def combinations(tx: TraceContext, iterable: Value, r: Value) -> Value:
    return chosen(tx, itertools.combinations, iterable, r)


@models(itertools.combinations_with_replacement)
def combinations_with_replacement(tx: TraceContext, iterable: Value, r: Value) -> Value:
    return chosen(tx, itertools.combinations_with_replacement, iterable, r)


@models(itertools.permutations)
def permutations(tx: TraceContext, iterable: Value, r: Value | None = None) -> Value:
    return chosen(tx, itertools.permutations, iterable, r)


def chosen(tx: TraceContext, cls: Any, iterable: Value, r: Value | None) -> Value:
    options = {}
    if r is not None and not (cls is itertools.permutations and r.is_constant() and r.constant() is None):
        options["r"] = number(tx, r)
        if options["r"] < 0:
            raise tx.throw(ValueError, "r must be non-negative")
    return Pooled(cls, [tx.unpack(iterable)], options)


@models(itertools.accumulate)
def accumulate(tx: TraceContext, iterable: Value, func: Value | None = None, *, initial: Value | None = None) -> Value:
    return Accumulate(iterable.iterator(tx), given(func), given(initial))


def given(value: Value | None) -> Value | None:
    """An argument, if it is not None."""
    return None if value is None or (value.is_constant() and value.constant() is None) else value


class ByFunction(Iterator):
    """An iterator that asks a function about the items of another one."""

    __slots__ = ("function", "inner")
    moves = ("function", "inner")

    def __init__(self, function: Value, inner: Value, source: Source | None = None) -> None:
        super().__init__(source)
        self.function, self.inner = function, inner

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

    def __init__(self, inner: Value, selectors: Value, source: Source | None = None) -> None:
        super().__init__(source)
        self.inner, self.selectors = inner, selectors

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

    __slots__ = ("inner", "key", "at", "ahead", "current")
    cls = itertools.groupby
    moves = ("ahead", "at", "current")

    def __init__(self, inner: Value, key: Value | None, source: Source | None = None) -> None:
        super().__init__(source)
        self.inner, self.key = inner, key
        self.ahead: tuple[Value, Value] | None = None  # (key, item) read last, unless the item was given
        self.at: Value | None = None  # key of the current group
        self.current: Group | None = None

    def step(self, tx: TraceContext) -> bool:
        """Reads the item ahead; whether there is one."""
        item = self.inner.next(tx)
        if item is None:
            return False
        item = tx.look(item)
        key = item if self.key is None else self.key.call(tx, [item], {})
        tx.effects.change(self)
        tx.count_instruction()
        self.ahead = (key, item)
        return True

    def next(self, tx: TraceContext) -> Value | None:
        tx.effects.change(self)
        self.current = None
        while self.ahead is None or (self.at is not None and tx.equal(tx.look(self.at), tx.look(self.ahead[0]))):
            if not self.step(tx):
                return None
        tx.effects.change(self)
        self.at = tx.look(self.ahead[0])
        self.current = Group(self, self.at)
        return TupleValue([self.at, self.current])


class Group(Iterator):
    """One group of an itertools.groupby."""

    __slots__ = ("of", "key")
    cls = GROUP

    def __init__(self, of: GroupBy, key: Value, source: Source | None = None) -> None:
        super().__init__(source)
        self.of, self.key = of, key

    def is_current(self) -> bool:
        return self.of.current is self

    def next(self, tx: TraceContext) -> Value | None:
        of = self.of
        if not self.is_current() or (of.ahead is None and not of.step(tx)):
            return None
        assert of.ahead is not None
        key, item = of.ahead
        if not tx.equal(tx.look(self.key), tx.look(key)):
            return None
        tx.effects.change(of)
        of.ahead = None
        return item


class Tee(Iterator):
    """One of the iterators that itertools.tee makes: items read by any are kept for the others."""

    __slots__ = ("inner", "read", "index", "born")
    cls = type(itertools.tee([])[0])
    moves = ("index",)

    def __init__(self, inner: Value, read: ListValue, born: int) -> None:
        super().__init__()
        self.inner, self.read, self.index, self.born = inner, read, 0, born

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
    return GroupBy(iterable.iterator(tx), None if by_item else key)


@models(itertools.tee)
def tee(tx: TraceContext, iterable: Value, n: Value | None = None) -> Value:
    if n is not None and number(tx, n) < 0:
        raise tx.throw(ValueError, "n must be >= 0")
    inner, read, born = iterable.iterator(tx), ListValue([]), tx.place()
    return TupleValue([Tee(inner, read, born) for _ in range(2 if n is None else n.constant())])


if BATCHED is not None:

    @models(BATCHED)
    def batched(tx: TraceContext, iterable: Value, n: Value, **options: Value) -> Value:
        strict = options.pop("strict", None)
        if options or number(tx, n) < 1 or (strict is not None and not BATCHES_MAY_BE_STRICT):
            raise GraphBreak("unknown-call", "itertools.batched() with these arguments")
        return Batches(iterable.iterator(tx), number(tx, n), strict is not None and strict.truth(tx))
