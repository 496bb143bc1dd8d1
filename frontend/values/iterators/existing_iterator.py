"""Iterators that existed before the frame. Tracing peeks at their items; the real iterators advance
after the graph has run."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ....errors import GraphBreak
from ....guards.guard import Kind
from ....guards.iterators import (
    CHANGED,
    COPIED,
    FORWARD_DICT,
    ITERATORS,
    LARGEST,
    MADE_OF_PARTS,
    advance,
    iterated_container,
    parts,
    peek,
    remaining,
    shape,
)
from ....guards.native import move_index, move_slice, set_open, slice_state
from ....guards.source import IteratorItem, IteratorPart, SequenceItem, Source
from ..base import Lazy, Value
from ..constant import Constant
from ..containers.sequence import TupleValue
from ..models.itertools import Flat
from ..registry import wraps
from .iterator import Filter, Iterator, ListedIterator, Map, SequenceIterator, Zip

if TYPE_CHECKING:
    from ..context import TraceContext
    from ..emitter import Emitter

KEYS, _, ITEMS = FORWARD_DICT
FEW = 4  # items up to which an iterator is moved by calls of next(), which is faster than a loop


class ExistingIterator(Iterator):
    """A builtin container's iterator that existed before the frame. Tracing peeks at items; the
    real iterator advances when side effects are applied. Guards check only that enough items are
    left, and the items that were looked at."""

    __slots__ = ("real", "cls", "taken", "exhausted", "left")
    moves = ("taken", "exhausted")

    def __init__(self, real: Any, source: Source) -> None:
        super().__init__(source)
        self.real, self.cls = real, type(real)
        self.taken, self.exhausted, self.left = 0, False, remaining(real)

    def next(self, tx: TraceContext) -> Value | None:
        replaced = None
        if tx.objects.is_iterated_changed(self.real):
            replaced = (
                tx.objects.dict_with_same_keys(self.real) if self.cls in (KEYS, ITEMS) else None
            )
            if replaced is None:
                raise self.unsupported("next() after what it walks was changed")
        tx.effects.change(self)
        if self.taken == self.left:
            tx.guards.add_remaining(self.known_source, self.left, self.cls, exactly=True)
            self.exhausted = True
            return None
        self.taken += 1
        tx.guards.add_remaining(self.known_source, self.taken, self.cls, exactly=False)
        item, at = peek(self.real, self.taken - 1), IteratorItem(self.known_source, self.taken - 1)
        if replaced is None or self.cls is KEYS:
            return Lazy(item, at)
        key = Constant(tx.wrap(item[0], SequenceItem(at, 0)).constant())
        return tx.make.tuple_of([key, replaced.item(tx, key)])

    @property
    def taken_from(self) -> Any:
        """The container from which tracing took items; None if it took nothing."""
        return iterated_container(self.real) if self.taken or self.exhausted else None

    def emit_changes(self, emit: Emitter) -> None:
        if self.taken <= FEW and not self.exhausted:
            for _ in range(self.taken):
                emit.run(next, [self])
        else:
            emit.run(advance, [self, emit.const(self.taken), emit.const(self.exhausted)])


class ExistingEnumerate(Iterator):
    """An enumerate that existed before the frame. Its inner iterator advances by itself, so that
    only the number has to be set."""

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
        number = Lazy(self.number + self.given, IteratorPart(self.known_source, 1, self.given))
        self.given += 1
        return tx.make.tuple_of([number, item])

    def emit_changes(self, emit: Emitter) -> None:
        emit.run(move_index, [self, emit.const(self.given)])


class ExistingCount(Iterator):
    """A count of ints that existed before the frame. Its numbers are calculated; the real one
    advances at the end."""

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
        return Lazy(self.value + ahead, IteratorPart(self.known_source, 0, ahead))

    def emit_changes(self, emit: Emitter) -> None:
        emit.run(advance, [self, emit.const(self.taken), emit.const(False)])


class ExistingSlice(Iterator):
    """An islice that existed before the frame. Its inner iterator advances by itself; the counts
    are set at the end. `skip_at_end`: the items skipped behind the last one."""

    __slots__ = (
        "inner",
        "skipped",
        "step",
        "left",
        "skip_at_end",
        "skip",
        "read",
        "given",
        "ended",
    )
    cls = itertools.islice
    moves = ("skip", "read", "given", "ended")

    def __init__(
        self, inner: Value, skipped: int, step: int, left: int, skip_at_end: int, source: Source
    ) -> None:
        super().__init__(source)
        self.inner, self.step, self.left, self.skip_at_end = inner, step, left, skip_at_end
        self.skip, self.read, self.given, self.ended = skipped, 0, 0, False

    def next(self, tx: TraceContext) -> Value | None:
        if self.ended:
            return None
        at_end = self.given == self.left
        if at_end:
            tx.guards.add_remaining(self.known_source, self.left, self.cls, exactly=True)
            if self.step > 1:
                count = self.skip_at_end
                tx.guards.add(
                    self.source,
                    Kind.PYTHON,
                    (f"skips {count} at its end", lambda obj: slice_state(obj)[4] == count),
                )
            if self.given:
                self.skip = self.skip_at_end
        while self.skip:
            if self._read(tx) is None:
                return None
            self.skip -= 1
        if at_end:
            tx.effects.change(self)
            self.ended = True
            return None
        tx.guards.add_remaining(self.known_source, self.given + 1, self.cls, exactly=False)
        item = self._read(tx)
        if item is not None:
            self.given += 1
            self.skip = self.step - 1
        return item

    def _read(self, tx: TraceContext) -> Value | None:
        item = self.inner.next(tx)
        tx.effects.change(self)
        tx.work.count()
        self.ended = item is None
        self.read += item is not None
        return item

    def emit_changes(self, emit: Emitter) -> None:
        emit.run(move_slice, [self, *map(emit.const, (self.read, self.given, self.ended))])


class ExistingChain(Flat):
    """A chain that existed before the frame. `opened` is the iterator that is open, if there is
    one."""

    __slots__ = ("opened",)

    def __init__(self, held: list[Value], source: Source) -> None:
        super().__init__(held[0] if held else SequenceIterator(TupleValue([])))
        self.source = source
        self.current = self.opened = held[1] if len(held) > 1 else None

    def emit_changes(self, emit: Emitter) -> None:
        if self.outer is None:
            emit.run(set_open, [self, self])
        elif self.current is not self.opened:
            emit.run(set_open, [self, self.current or Constant(None)])


@wraps(*ITERATORS)
def wrap_iterator(tx: TraceContext, obj: Any, source: Source | None) -> Value:
    if source is None:
        return ListedIterator(
            [tx.wrap(item, None) for item in obj], type(obj)
        )  # the result of a folded call
    tx.guards.add(source, Kind.TYPE, type(obj))
    left = remaining(obj)
    if left == CHANGED or (type(obj) in COPIED and left > LARGEST):
        raise GraphBreak(
            "unsupported-value",
            f"a {type(obj).__name__} that {'is spoilt' if left == CHANGED else f'has {left} items left'}",
        )
    return tx.objects.remember(obj, ExistingIterator(obj, source))


@wraps(*MADE_OF_PARTS)
def wrap_made_of_parts(tx: TraceContext, obj: Any, source: Source | None) -> Value:
    if source is None:
        raise GraphBreak("unsupported-value", f"a {type(obj).__name__} that no path leads to")
    made = shape(obj)
    if isinstance(obj, enumerate | filter):  # all are made alike
        tx.guards.add(source, Kind.TYPE, made[0])
    else:
        tx.guards.add(
            source,
            Kind.PYTHON,
            (f"is made as {made!r}", lambda other: type(other) is made[0] and shape(other) == made),
        )
    held = parts(obj)
    if isinstance(obj, itertools.count):
        if not held:
            raise GraphBreak("unsupported-value", "a count of other numbers than ints")
        return tx.objects.remember(obj, ExistingCount(held[0], held[1], source))
    whole = 1 if isinstance(obj, enumerate) else len(held)
    paths = [IteratorPart(source, place) for place in range(len(held))]
    values = [*map(tx.wrap, held[:whole], paths), *map(Lazy, held[whole:], paths[whole:])]
    return tx.objects.remember(obj, MAKERS[type(obj)](tx, obj, values, source))


MAKERS: dict[type, Callable[[TraceContext, Any, list[Any], Source], Value]] = {
    enumerate: lambda tx, obj, values, source: ExistingEnumerate(values[0], parts(obj)[1], source),
    zip: lambda tx, obj, values, source: Zip(values, shape(obj)[2], source),
    map: lambda tx, obj, values, source: Map(values[0], values[1:], source),
    filter: lambda tx, obj, values, source: Filter(values[0], values[1], source),
    itertools.chain: lambda tx, obj, values, source: ExistingChain(values, source),
    itertools.islice: lambda tx, obj, values, source: slice_of(
        obj, values[0], shape(obj)[2], source
    ),
}


def slice_of(obj: Any, inner: Value, how: tuple[bool, int, int], source: Source) -> Value:
    ended, skipped, step = how
    _, _, _, left, skip_at_end = slice_state(obj)
    if ended:
        raise GraphBreak("unsupported-value", "an islice that has ended")
    return ExistingSlice(inner, skipped, step, left, skip_at_end, source)
