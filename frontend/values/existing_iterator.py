"""Iterators that existed before the frame: what is in them is read where they lie, and the real ones move at the end."""
from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...errors import GraphBreak
from ...guards.guard import Kind
from ...guards.iterators import CHANGED, COPIED, FORWARD_DICT, ITERATORS, LARGEST, MADE_OF_PARTS, parts, peek, remaining, shape, walked
from ...guards.source import IteratorItem, IteratorPart, SequenceItem, Source
from .base import Lazy, Value
from .constant import Constant
from .facts import Facts
from .iterator import Filter, Iterator, ListedIterator, Map, SequenceIterator, Zip
from .models.itertools import Compress, DropWhile, FilterFalse, Flat, Pairwise, StarMap, TakeWhile, bool_of_none
from .registry import wraps
from .sequence import TupleValue

if TYPE_CHECKING:
    from .context import TraceContext

KEYS, _, ITEMS = FORWARD_DICT


class ExistingIterator(Iterator):
    """A builtin container's iterator that existed before the frame. What the trace takes from it is peeked at; the real one
    moves when the effects are replayed. Guarded is only that so many items are left, and the items looked at."""

    __slots__ = ("real", "cls", "taken", "exhausted", "left")
    moves = ("taken", "exhausted")

    def __init__(self, real: Any, source: Source) -> None:
        super().__init__(source)
        self.real, self.cls = real, type(real)
        self.taken, self.exhausted, self.left = 0, False, remaining(real)

    def next(self, tx: TraceContext) -> Value | None:
        replaced = None
        if tx.changed_under(self.real):
            replaced = tx.replaced_under(self.real) if self.cls in (KEYS, ITEMS) else None
            if replaced is None:
                raise self.unsupported("next() after what it walks was changed")
        tx.effects.change(self)
        if self.taken == self.left:
            tx.guard_remaining(self.source, self.left, self.cls, exactly=True)
            self.exhausted = True
            return None
        self.taken += 1
        tx.guard_remaining(self.source, self.taken, self.cls, exactly=False)
        item, at = peek(self.real, self.taken - 1), IteratorItem(self.source, self.taken - 1)
        if replaced is None or self.cls is KEYS:
            return Lazy(item, at)
        key = Constant(tx.wrap(item[0], SequenceItem(at, 0)).constant())
        return tx.build_tuple([key, replaced.item(tx, key)])

    @property
    def walked(self) -> Any:
        """The container that the trace took something from; None if it took nothing."""
        return walked(self.real) if self.taken or self.exhausted else None


class ExistingEnumerate(Iterator):
    """An enumerate that existed before the frame: its inner iterator moves for itself, so only its number has to be set."""

    __slots__ = ("inner", "number", "given")
    cls = enumerate
    moves = ("given",)

    def __init__(self, inner: Value, number: int, source: Source) -> None:
        super().__init__(source)
        self.inner, self.number, self.given = inner, number, 0

    def next(self, tx: TraceContext) -> Value | None:
        item = self.inner.next(tx)
        if item is None:
            return None
        tx.effects.change(self)
        number = Lazy(self.number + self.given, IteratorPart(self.source, 1, self.given))
        self.given += 1
        return tx.build_tuple([number, item])


class ExistingCount(Iterator):
    """A count of ints that existed before the frame: its numbers are read off it, the real one moves at the end."""

    __slots__ = ("value", "step", "taken")
    cls = itertools.count
    moves = ("taken",)

    def __init__(self, value: int, step: int, source: Source) -> None:
        super().__init__(source)
        self.value, self.step, self.taken = value, step, 0

    def next(self, tx: TraceContext) -> Value:
        tx.effects.change(self)
        ahead = self.taken * self.step
        self.taken += 1
        return Lazy(self.value + ahead, IteratorPart(self.source, 0, ahead))


class ExistingProduct(Iterator):
    """A product that existed before the frame, of sequences; where it stands is relied on, the real one moves at the end."""

    __slots__ = ("pools", "ahead", "taken", "exhausted")
    cls = itertools.product
    moves = ("taken", "exhausted")

    def __init__(self, pools: list[list[Value]], last: Any, source: Source) -> None:
        super().__init__(source)
        numbers = list(itertools.product(*(range(len(pool)) for pool in pools)))
        begun = 0 if last is None else len(numbers) if last is False else numbers.index(last) + 1
        self.pools, self.ahead = pools, numbers[begun:]
        self.taken, self.exhausted = 0, False

    def next(self, tx: TraceContext) -> Value | None:
        tx.effects.change(self)
        if self.taken == len(self.ahead):
            self.exhausted = True
            return None
        self.taken += 1
        return tx.build_tuple([tx.look(pool[at]) for pool, at in zip(self.pools, self.ahead[self.taken - 1], strict=True)])


class ExistingSlice(Iterator):
    """An islice of step 1 that existed before the frame: its inner iterator moves for itself, the counts are set at the end."""

    __slots__ = ("inner", "skipped", "left", "read", "given", "ended")
    cls = itertools.islice
    moves = ("read", "given", "ended")

    def __init__(self, inner: Value, skipped: int, left: int, source: Source) -> None:
        super().__init__(source)
        self.inner, self.skipped, self.left = inner, skipped, left
        self.read, self.given, self.ended = 0, 0, False

    def next(self, tx: TraceContext) -> Value | None:
        if self.ended:
            return None
        while self.read < self.skipped:
            if self._read(tx) is None:
                return None
        if self.given == self.left:
            tx.guard_remaining(self.source, self.left, self.cls, exactly=True)
            tx.effects.change(self)
            self.ended = True
            return None
        tx.guard_remaining(self.source, self.given + 1, self.cls, exactly=False)
        item = self._read(tx)
        self.given += item is not None
        return item

    def _read(self, tx: TraceContext) -> Value | None:
        item = self.inner.next(tx)
        tx.effects.change(self)
        tx.count_instruction()
        self.ended = item is None
        self.read += item is not None
        return item


class ExistingPairwise(Pairwise):
    """A pairwise that existed before the frame, with the item before, if it has begun."""

    __slots__ = ()

    def __init__(self, held: list[Value], source: Source) -> None:
        super().__init__(held[0] if held else Constant(None))
        self.source = source
        if held:
            self.old = held[1] if len(held) > 1 else None
        else:
            self.inner = None


class ExistingChain(Flat):
    """A chain that existed before the frame, with the iterator of iterables and the open one, if there is any."""

    __slots__ = ("opened",)

    def __init__(self, held: list[Value], source: Source) -> None:
        super().__init__(held[0] if held else SequenceIterator(TupleValue([])))
        self.source = source
        self.current = self.opened = held[1] if len(held) > 1 else None


class ExistingTakeWhile(TakeWhile):
    """A takewhile that existed before the frame."""

    __slots__ = ()

    def __init__(self, held: list[Value], done: bool, source: Source) -> None:
        super().__init__(held[0], SequenceIterator(TupleValue([])) if done else held[1], source)


class ExistingDropWhile(DropWhile):
    """A dropwhile that existed before the frame."""

    __slots__ = ()

    def __init__(self, held: list[Value], done: bool, source: Source) -> None:
        super().__init__(Facts(bool_of_none) if done else held[0], held[1], source)


@wraps(*ITERATORS)
def wrap_iterator(tx: TraceContext, obj: Any, source: Source | None) -> Value:
    if source is None:
        return ListedIterator([tx.wrap(item, None) for item in obj], type(obj))  # the result of a folded call
    tx.guard(source, Kind.TYPE, type(obj))
    left = remaining(obj)
    if left == CHANGED or (type(obj) in COPIED and left > LARGEST):
        raise GraphBreak("unsupported-value", f"a {type(obj).__name__} that {'is spoilt' if left == CHANGED else f'has {left} items left'}")
    return tx.remember(obj, ExistingIterator(obj, source))


@wraps(*MADE_OF_PARTS)
def wrap_made_of_parts(tx: TraceContext, obj: Any, source: Source | None) -> Value:
    if source is None:
        raise GraphBreak("unsupported-value", f"a {type(obj).__name__} that no path leads to")
    made = shape(obj)
    if isinstance(obj, enumerate | filter | itertools.product):  # all are made alike
        tx.guard(source, Kind.TYPE, made[0])
    else:
        tx.guard(source, Kind.PYTHON, (f"is made as {made!r}", lambda other: type(other) is made[0] and shape(other) == made))
    held = parts(obj)
    if isinstance(obj, itertools.product):
        return tx.remember(obj, product_of(tx, *held, source))
    if isinstance(obj, itertools.count):
        if not held:
            raise GraphBreak("unsupported-value", "a count of other numbers than ints")
        return tx.remember(obj, ExistingCount(*held, source))
    values = [tx.wrap(item, IteratorPart(source, place)) for place, item in enumerate(held) if not (place and isinstance(obj, enumerate))]
    return tx.remember(obj, MAKERS[type(obj)](tx, obj, values, source))


MAKERS: dict[type, Callable[[TraceContext, Any, list[Any], Source], Value]] = {
    enumerate: lambda tx, obj, values, source: ExistingEnumerate(values[0], parts(obj)[1], source),
    zip: lambda tx, obj, values, source: Zip(values, shape(obj)[2], source),
    map: lambda tx, obj, values, source: Map(values[0], values[1:], source),
    filter: lambda tx, obj, values, source: Filter(*values, source),
    itertools.starmap: lambda tx, obj, values, source: StarMap(*reversed(values), source),
    itertools.filterfalse: lambda tx, obj, values, source: FilterFalse(*reversed(values), source),
    itertools.compress: lambda tx, obj, values, source: Compress(*values, source),
    itertools.chain: lambda tx, obj, values, source: ExistingChain(values, source),
    itertools.islice: lambda tx, obj, values, source: slice_of(values[0], shape(obj)[2], remaining(obj), source),
    itertools.takewhile: lambda tx, obj, values, source: ExistingTakeWhile(values, *shape(obj)[2], source),
    itertools.dropwhile: lambda tx, obj, values, source: ExistingDropWhile(values, has_started(tx, obj, source), source),
    itertools.pairwise: lambda tx, obj, values, source: ExistingPairwise(values, source),
}


def slice_of(inner: Value, how: tuple[bool, int, int], left: int, source: Source) -> Value:
    ended, skipped, step = how
    if ended or step != 1 or (skipped and not left):
        raise GraphBreak("unsupported-value", "an islice that has ended" if ended else "an islice of such steps")
    return ExistingSlice(inner, skipped, left, source)


MOST_PRODUCTS = 64  # of a product that is looked into: each of its items is an entry's own


def product_of(tx: TraceContext, pools: tuple[tuple[Any, ...], ...], last: Any, source: Source) -> Value:
    if math.prod(map(len, pools)) > MOST_PRODUCTS:
        raise GraphBreak("unsupported-value", f"a product of more than {MOST_PRODUCTS}")
    tx.guard(IteratorPart(source, 1), Kind.EQUALS, last)
    return ExistingProduct([tx.unpack(pool) for pool in tx.unpack(tx.wrap(pools, IteratorPart(source, 0)))], last, source)


def has_started(tx: TraceContext, obj: Any, source: Source) -> bool:
    """Of a dropwhile; one that started in a trace was made anew with a function that drops nothing."""
    if parts(obj)[0] is bool_of_none:
        tx.guard(IteratorPart(source, 0), Kind.IS, bool_of_none)
        return True
    return bool(shape(obj)[2][0])
