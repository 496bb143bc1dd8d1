"""Iterators that existed before the frame. Tracing peeks at their items; the real iterators advance
after the graph has run."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from ....errors import GraphBreak
from ....guards.guard import Kind
from ....guards.iterators import (
    CHANGED,
    COPIED,
    ITERATORS,
    LARGEST,
    MADE_OF_PARTS,
    advance,
    is_strict,
    iterated_container,
    iterator_parts,
    peek,
    remaining,
)
from ....guards.native import move_index
from ....guards.source import CalculatedNumber, IteratorItem, IteratorPart, Source
from ..base import LazyValue, Value, require_path
from ..context import TraceContext
from ..emitter import Emitter
from ..registry import wraps
from .iterator import LITERALS, UNROLLED_LENGTHS, Filter, Iterator, ListedIterator, Map, Zip

FEW = 4  # items up to which an iterator is moved by calls of next(), which is faster than a loop


class ExistingIterator(Iterator):
    """A builtin container's iterator that existed before the frame. Tracing peeks at items; the
    real iterator advances when side effects are applied. Guards check only that enough items are
    left, and the items that were realised."""

    __slots__ = ("real", "cls", "taken", "exhausted", "left")
    state = ("taken", "exhausted")

    def __init__(self, real: Any, source: Source) -> None:
        super().__init__(source)
        self.real, self.cls = real, type(real)
        self.taken, self.exhausted, self.left = 0, False, remaining(real)

    def varies_in_length(self, tx: TraceContext) -> bool:
        """Whether calls had several numbers of items left, all of them literals."""
        items = (peek(self.real, index) for index in range(self.taken, self.left))
        if not all(type(item) in LITERALS for item in items):
            return False
        left = self.left - self.taken
        path = CalculatedNumber(self.known_source, remaining)
        varies = tx.symbols.is_symbolic(path, left)
        return varies and tx.symbols.variation.captures >= UNROLLED_LENGTHS

    def next(self, tx: TraceContext) -> Value | None:
        if tx.objects.is_iterated_changed(self.real):
            raise self.unsupported_use("next() after its container was changed")
        tx.effects.change(self)
        if self.taken == self.left:
            tx.guards.add_remaining(self.known_source, self.left, self.cls, exactly=True)
            self.exhausted = True
            return None
        self.taken += 1
        tx.guards.add_remaining(self.known_source, self.taken, self.cls, exactly=False)
        item = peek(self.real, self.taken - 1)
        return LazyValue(item, IteratorItem(self.known_source, self.taken - 1))

    def lost_objects(self, tx: TraceContext) -> Iterable[Any]:
        """Until it is exhausted it keeps its container, and that its items."""
        return [self.taken_from] if self.exhausted else []

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
    state = ("given",)

    def __init__(self, inner: Value, number: int, source: Source) -> None:
        super().__init__(source)
        self.inner, self.number, self.given = inner, number, 0

    def next(self, tx: TraceContext) -> Value | None:
        item = self.inner.next(tx)
        if item is None:
            return None
        tx.effects.change(self)
        number = LazyValue(self.number + self.given, IteratorPart(self.known_source, 1, self.given))
        self.given += 1
        return tx.make.tuple_of([number, item])

    def emit_changes(self, emit: Emitter) -> None:
        emit.run(move_index, [self, emit.const(self.given)])


@wraps(*ITERATORS)
def wrap_iterator(tx: TraceContext, obj: Any, source: Source | None) -> Value:
    if source is None:
        # the result of a folded call
        return ListedIterator([tx.wrap(item, None) for item in obj], type(obj))
    tx.guards.add(source, Kind.TYPE, type(obj))
    left = remaining(obj)
    if left == CHANGED or (type(obj) in COPIED and left > LARGEST):
        raise GraphBreak(
            "unsupported-value",
            f"a {type(obj).__name__} "
            f"{'over a changed container' if left == CHANGED else f'with {left} items left'}",
        )
    return tx.objects.remember(obj, ExistingIterator(obj, source))


@wraps(*MADE_OF_PARTS)
def wrap_made_of_parts(tx: TraceContext, obj: Any, source: Source | None) -> Value:
    """An existing enumerate, filter, map or zip, as a new one over what it holds."""
    source = require_path(obj, source)
    tx.guards.add(source, Kind.TYPE, type(obj))
    held = iterator_parts(obj)
    paths = [IteratorPart(source, position) for position in range(len(held))]
    if isinstance(obj, enumerate):
        return tx.objects.remember(
            obj, ExistingEnumerate(tx.wrap(held[0], paths[0]), held[1], source)
        )
    values = [*map(tx.wrap, held, paths)]
    if isinstance(obj, filter):
        return tx.objects.remember(obj, Filter(values[0], values[1], source))
    count = len(held)
    tx.guards.add(source, Kind.PYTHON, (f"has {count} parts", partial(has_parts, count)))
    if isinstance(obj, map):
        return tx.objects.remember(obj, Map(values[0], values[1:], source))
    strict = is_strict(obj)
    tx.guards.add(source, Kind.PYTHON, (f"strict is {strict}", partial(has_strictness, strict)))
    return tx.objects.remember(obj, Zip(values, strict, source))


def has_parts(count: int, iterator: Any) -> bool:
    return len(iterator_parts(iterator)) == count


def has_strictness(strict: bool, iterator: Any) -> bool:
    return is_strict(iterator) is strict
