"""Iterators that existed before the frame: what is in them is read where they lie, and the real ones move at the end."""
from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...errors import GraphBreak
from ...guards.guard import Kind
from ...guards.iterators import (
    CHANGED,
    CHOOSING,
    COPIED,
    FORWARD_DICT,
    GROUP,
    ITERATORS,
    LARGEST,
    MADE_OF_PARTS,
    parts,
    peek,
    remaining,
    shape,
    walked,
)
from ...guards.native import held_state
from ...guards.source import IteratorItem, IteratorPart, SequenceItem, Source
from .base import Lazy, Value
from .constant import Constant
from .facts import Facts
from .iterator import CallIterator, Filter, Iterator, ListedIterator, Map, SequenceIterator, Zip
from .models.itertools import (
    BATCHED,
    Accumulate,
    Batches,
    Compress,
    Count,
    DropWhile,
    FilterFalse,
    Flat,
    Group,
    GroupBy,
    Pairwise,
    StarMap,
    TakeWhile,
    ZipLongest,
    bool_of_none,
)
from .registry import wraps
from .sequence import ListValue, TupleValue

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


class ExistingNumbers(Count):
    """A count of floats that existed before the frame; `taken` of its numbers were given."""

    __slots__ = ("taken",)
    moves = ("value", "taken")

    def __init__(self, value: Value, step: Value, source: Source) -> None:
        super().__init__(value, step, source)
        self.taken = 0

    def next(self, tx: TraceContext) -> Value:
        given = super().next(tx)
        self.taken += 1
        return given


class ExistingChoice(Iterator):
    """A product, or one of its kin, that existed before the frame; where it stands is relied on, the real one moves at the end.
    `picks`: the indices of all that it gives, one in each pool."""

    __slots__ = ("cls", "pools", "ahead", "taken", "exhausted")
    moves = ("taken", "exhausted")

    def __init__(self, cls: type, pools: list[list[Value]], picks: list[tuple[int, ...]], last: Any, source: Source) -> None:
        super().__init__(source)
        begun = 0 if last is None else len(picks) if last is False else picks.index(last) + 1
        self.cls, self.pools, self.ahead = cls, pools, picks[begun:]
        self.taken, self.exhausted = 0, False

    def next(self, tx: TraceContext) -> Value | None:
        tx.effects.change(self)
        if self.taken == len(self.ahead):
            self.exhausted = True
            return None
        self.taken += 1
        return tx.build_tuple([tx.look(pool[at]) for pool, at in zip(self.pools, self.ahead[self.taken - 1], strict=True)])


class ExistingCycle(Iterator):
    """A cycle that existed before the frame. One that still reads adds to its list of items; of one that goes round the items are
    peeked at."""

    __slots__ = ("real", "inner", "saved", "taken")
    cls = itertools.cycle
    moves = ("inner", "taken")

    def __init__(self, real: Any, inner: Value | None, saved: ListValue | None, source: Source) -> None:
        super().__init__(source)
        self.real, self.inner, self.saved, self.taken = real, inner, saved, 0

    @property
    def has_ended(self) -> bool:
        """Whether it came to the end of what it reads in this frame."""
        return self.saved is not None and self.inner is None

    def next(self, tx: TraceContext) -> Value | None:
        item = None if self.inner is None else self.inner.next(tx)
        if item is not None and self.saved is not None:
            self.saved.add(tx, [tx.look(item)])
            return item
        tx.effects.change(self)
        self.inner = None
        if self.saved is None:
            if not parts(self.real):
                return None
            self.taken += 1
            return Lazy(peek(self.real, self.taken - 1), IteratorItem(self.source, self.taken - 1))
        if not self.saved.items:
            return None
        self.taken += 1
        return self.saved.at(tx, (self.taken - 1) % len(self.saved.items))


class ExistingZipLongest(ZipLongest):
    """A zip_longest that existed before the frame. `open`: which of its iterators had not ended then."""

    __slots__ = ("open",)

    def __init__(self, fill: Value, inners: list[Value | None], source: Source) -> None:
        super().__init__(inners, fill, source)
        self.open = [inner is not None for inner in inners]

    @property
    def ended(self) -> list[int]:
        """The places of those that have ended since."""
        return [place for place, inner in enumerate(self.inners) if inner is None and self.open[place]]


class ExistingAccumulate(Accumulate):
    """An accumulate that existed before the frame, with its start or what it gave last."""

    __slots__ = ()

    def __init__(self, inner: Value, function: Value | None, start: Value | None, total: list[Value], source: Source) -> None:
        super().__init__(inner, function, start, source)
        if start is None and total:
            self.total = total[0]


class ExistingGroupBy(GroupBy):
    """A groupby that existed before the frame. `untouched`: its current group is still that of then."""

    __slots__ = ("untouched",)
    moves = ("ahead", "at", "current", "untouched")

    def __init__(self, inner: Value, key: Value | None, at: Value | None, ahead: tuple[Value, Value] | None, source: Source) -> None:
        super().__init__(inner, key, source)
        self.at, self.ahead, self.untouched = at, ahead, True

    def next(self, tx: TraceContext) -> Value | None:
        tx.effects.change(self)
        self.untouched = False
        return super().next(tx)


class ExistingGroup(Group):
    """A group that existed before the frame."""

    __slots__ = ("was_current",)

    def __init__(self, of: ExistingGroupBy, key: Value, was_current: bool, source: Source) -> None:
        super().__init__(of, key, source)
        self.was_current = was_current

    def is_current(self) -> bool:
        return self.was_current and self.of.untouched  # type: ignore[attr-defined]


class ExistingBatches(Batches):
    """A batched that existed before the frame."""

    __slots__ = ()


class ExistingCallIterator(CallIterator):
    """An iter(function, sentinel) that existed before the frame."""

    __slots__ = ()

    def __init__(self, held: list[Value], source: Source) -> None:
        super().__init__(*held or (Constant(None), Constant(None)))
        self.source, self.exhausted = source, not held


class ExistingSlice(Iterator):
    """An islice that existed before the frame: its inner iterator moves for itself, the counts are set at the end. `tail`: how many
    items it skips behind the last one."""

    __slots__ = ("inner", "skipped", "step", "left", "tail", "skip", "read", "given", "ended")
    cls = itertools.islice
    moves = ("skip", "read", "given", "ended")

    def __init__(self, inner: Value, skipped: int, step: int, left: int, tail: int, source: Source) -> None:
        super().__init__(source)
        self.inner, self.step, self.left, self.tail = inner, step, left, tail
        self.skip, self.read, self.given, self.ended = skipped, 0, 0, False

    def next(self, tx: TraceContext) -> Value | None:
        if self.ended:
            return None
        at_end = self.given == self.left
        if at_end:
            tx.guard_remaining(self.source, self.left, self.cls, exactly=True)
            if self.step > 1:
                tail = self.tail
                tx.guard(self.source, Kind.PYTHON, (f"skips {tail} at its end", lambda obj: held_state(obj)[4] == tail))
            if self.given:
                self.skip = self.tail
        while self.skip:
            if self._read(tx) is None:
                return None
            self.skip -= 1
        if at_end:
            tx.effects.change(self)
            self.ended = True
            return None
        tx.guard_remaining(self.source, self.given + 1, self.cls, exactly=False)
        item = self._read(tx)
        if item is not None:
            self.given += 1
            self.skip = self.step - 1
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
    if isinstance(obj, CHOOSING):
        return tx.remember(obj, choice_of(tx, obj, *held, source))
    if isinstance(obj, itertools.count):
        return tx.remember(obj, count_of(tx, held, source))
    whole = WHOLE.get(type(obj), len(held))
    paths = [IteratorPart(source, place) for place in range(len(held))]
    values = [*map(tx.wrap, held[:whole], paths), *map(Lazy, held[whole:], paths[whole:])]
    return tx.remember(obj, MAKERS[type(obj)](tx, obj, values, source))


WHOLE = {enumerate: 1, itertools.accumulate: 2, itertools.groupby: 2, GROUP: 1}  # parts that are always looked at
MAKERS: dict[type | None, Callable[[TraceContext, Any, list[Any], Source], Value]] = {
    enumerate: lambda tx, obj, values, source: ExistingEnumerate(values[0], parts(obj)[1], source),
    zip: lambda tx, obj, values, source: Zip(values, shape(obj)[2], source),
    map: lambda tx, obj, values, source: Map(values[0], values[1:], source),
    filter: lambda tx, obj, values, source: Filter(*values, source),
    itertools.starmap: lambda tx, obj, values, source: StarMap(*reversed(values), source),
    itertools.filterfalse: lambda tx, obj, values, source: FilterFalse(*reversed(values), source),
    itertools.compress: lambda tx, obj, values, source: Compress(*values, source),
    itertools.chain: lambda tx, obj, values, source: ExistingChain(values, source),
    itertools.islice: lambda tx, obj, values, source: slice_of(obj, values[0], shape(obj)[2], source),
    itertools.takewhile: lambda tx, obj, values, source: ExistingTakeWhile(values, *shape(obj)[2], source),
    itertools.dropwhile: lambda tx, obj, values, source: ExistingDropWhile(values, has_started(tx, obj, source), source),
    itertools.pairwise: lambda tx, obj, values, source: ExistingPairwise(values, source),
    itertools.cycle: lambda tx, obj, values, source: cycle_of(obj, values, *shape(obj)[2], source),
    itertools.zip_longest: lambda tx, obj, values, source: ExistingZipLongest(values[0], given(values[1:]), source),
    itertools.accumulate: lambda tx, obj, values, source: ExistingAccumulate(values[0], *given(values[1:3]), values[3:], source),
    itertools.groupby: lambda tx, obj, values, source: groups_of(values, *shape(obj)[2], source),
    GROUP: lambda tx, obj, values, source: ExistingGroup(*values, *shape(obj)[2], source),
    BATCHED: lambda tx, obj, values, source: ExistingBatches(*given(values), *shape(obj)[2][1:], source),
    CallIterator.cls: lambda tx, obj, values, source: ExistingCallIterator(values, source),
}


def given(values: list[Value]) -> list[Value | None]:
    """Parts; None for those that are not there."""
    return [None if value.python_type() is type(None) else value for value in values]


def count_of(tx: TraceContext, held: tuple[Any, ...], source: Source) -> Value:
    if not held:
        raise GraphBreak("unsupported-value", "a count of other numbers than ints and floats")
    if all(type(number) is int for number in held):
        return ExistingCount(*held, source)
    return ExistingNumbers(*(tx.wrap(number, IteratorPart(source, place)) for place, number in enumerate(held)), source)


def cycle_of(obj: Any, values: list[Any], goes_round: bool, has_items: bool, copied: bool, source: Source) -> Value:
    if copied and not goes_round:
        raise GraphBreak("unsupported-value", "a cycle that is a copy of another one")
    return ExistingCycle(obj, *((None, None) if goes_round else values), source)


def groups_of(values: list[Any], no_target: bool, no_key: bool, no_item: bool, source: Source) -> Value:
    inner, key, *held = values
    at = None if no_target else held.pop(0)
    return ExistingGroupBy(inner, given([key])[0], at, (held[0], held[1]) if held else None, source)


def slice_of(obj: Any, inner: Value, how: tuple[bool, int, int], source: Source) -> Value:
    ended, skipped, step = how
    _, _, _, left, tail = held_state(obj)
    if ended:
        raise GraphBreak("unsupported-value", "an islice that has ended")
    return ExistingSlice(inner, skipped, step, left, tail, source)


MOST_CHOICES = 64  # of a product that is looked into: each of its items is an entry's own


def choice_of(tx: TraceContext, obj: Any, pools: tuple[Any, ...], last: Any, source: Source) -> Value:
    length = held_state(obj)[2]
    pool = tx.wrap(pools, IteratorPart(source, 0))
    if isinstance(obj, itertools.product):
        held = [tx.unpack(items) for items in tx.unpack(pool)]
        indices = itertools.product(*(range(len(items)) for items in held))
    else:
        held = [tx.unpack(pool)] * length
        indices = type(obj)(range(len(pools)), length)
    picks = list(itertools.islice(indices, MOST_CHOICES + 1))
    if len(picks) > MOST_CHOICES:
        raise GraphBreak("unsupported-value", f"a {type(obj).__name__} of more than {MOST_CHOICES}")
    tx.guard(IteratorPart(source, 1), Kind.EQUALS, last)
    return ExistingChoice(type(obj), held, picks, last, source)


def has_started(tx: TraceContext, obj: Any, source: Source) -> bool:
    """Of a dropwhile; one that started in a trace was made anew with a function that drops nothing."""
    if parts(obj)[0] is bool_of_none:
        tx.guard(IteratorPart(source, 0), Kind.IS, bool_of_none)
        return True
    return bool(shape(obj)[2][0])
