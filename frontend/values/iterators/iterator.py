"""Iterators over values whose items are known: sequences, ranges, zip, enumerate, map, filter,
chained."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from ....guards.source import Source
from ..base import CannotReconstruct, ObservedException, Value, none_if_stopped, take
from ..constant import Constant
from ..context import TraceContext
from ..emitter import Emitter
from ..mutable import Mutable

# Loops of so many lengths are unrolled; then one whose length varies is left to Python.
UNROLLED_LENGTHS = 3
# breaks of which the result has a length that varies
VARYING_LOOP = "a range or list whose length varies, in a loop"
VARYING_LIST = "a list whose length varies"
VARYING_COMPREHENSION = "a range or list whose length varies, in a comprehension"
LITERALS = frozenset({bool, int, float, str, type(None)})


class Iterator(Mutable):
    """An object that is its own iterator."""

    __slots__ = ()
    cls: type = object

    def iterator(self, tx: TraceContext) -> Value:
        return self

    def attribute(self, tx: TraceContext, name: str) -> Value:
        cls = self.python_type()
        if name == "__class__":
            return tx.wrap(cls, None)
        if cls is not object and not hasattr(cls, name):
            raise tx.exceptions.no_attribute(cls.__name__, name)
        return super().attribute(tx, name)


def inner_iterator(emit: Emitter, inner: Value) -> Callable[[], None]:
    """Returns an argument for an iterator over `inner`, which is an iterator already: an __iter__
    in Python is not called again."""
    if inner.iterates_in_python():
        return lambda: emit.call(iterate, [inner])
    return lambda: emit.push(inner)


def iterate(obj: Any) -> Any:
    """Returns an iterator over the results of next(obj)."""
    return map(next, itertools.repeat(obj))


def set_index(iterator: Any, index: int) -> None:
    """Moves an iterator that counts items to an index."""
    iterator.__setstate__(index)


class RangeIterator(Iterator):
    """iter(range). `rest` is the range that is left."""

    __slots__ = ("rest",)
    cls = type(iter(range(0)))
    state = ("rest",)

    def __init__(self, rest: range) -> None:
        super().__init__()
        self.rest = rest

    def next(self, tx: TraceContext) -> Value | None:
        if not self.rest:
            return None
        tx.effects.change(self)
        first, self.rest = self.rest[0], self.rest[1:]
        return Constant(first)

    def reconstruct(self, emit: Emitter) -> None:
        emit.builder.load_const(self.rest)
        emit.builder.get_iter()


class ListedIterator(Iterator):
    """An iterator whose remaining items are all known (dictionary views, sets)."""

    __slots__ = ("rest", "cls")
    state: tuple[str, ...] = ("rest",)

    def __init__(self, rest: list[Value], cls: type, source: Source | None = None) -> None:
        super().__init__(source)
        self.rest, self.cls = rest, cls

    def next(self, tx: TraceContext) -> Value | None:
        if not self.rest:
            return None
        tx.effects.change(self)
        return tx.look(self.rest.pop(0))

    def reconstruct(self, emit: Emitter) -> None:
        emit.push_list(self.rest)
        emit.builder.get_iter()


class Enumerate(Iterator):
    """enumerate(inner, index)."""

    __slots__ = ("inner", "index")
    cls = enumerate
    state = ("index",)

    def __init__(self, inner: Value, index: int) -> None:
        super().__init__()
        self.inner, self.index = inner, index

    def varies_in_length(self, tx: TraceContext) -> bool:
        return self.inner.varies_in_length(tx)

    def next(self, tx: TraceContext) -> Value | None:
        item = self.inner.next(tx)
        if item is None:
            return None
        tx.effects.change(self)
        self.index += 1
        return tx.make.tuple_of([Constant(self.index - 1), item])

    def reconstruct(self, emit: Emitter) -> None:
        emit.call(enumerate, [inner_iterator(emit, self.inner), emit.const(self.index)])


class Zip(Iterator):
    """zip(*inners, strict=strict). Like map and filter, its state is that of its inner
    iterators."""

    __slots__ = ("inners", "strict")
    cls = zip

    def __init__(self, inners: list[Value], strict: bool, source: Source | None = None) -> None:
        super().__init__(source)
        self.inners, self.strict = inners, strict

    def varies_in_length(self, tx: TraceContext) -> bool:
        return any(inner.varies_in_length(tx) for inner in self.inners)

    def next(self, tx: TraceContext) -> Value | None:
        items: list[Value] = []
        for inner in self.inners:
            item = inner.next(tx)
            if item is None:
                self._ends_together(tx, len(items))
                return None
            items.append(item)
        return tx.make.tuple_of(items) if items else None

    def _ends_together(self, tx: TraceContext, ended: int) -> None:
        """Raises the error of strict=True, where inner iterator number `ended` has ended and those
        before it have not."""
        if not self.strict:
            return
        if ended:
            raise tx.exceptions.new(
                ValueError,
                f"zip() argument {ended + 1} is shorter than argument{those_before(ended)}",
            )
        for number, other in enumerate(self.inners[1:], 1):
            if other.next(tx) is not None:
                raise tx.exceptions.new(
                    ValueError,
                    f"zip() argument {number + 1} is longer than argument{those_before(number)}",
                )

    def reconstruct(self, emit: Emitter) -> None:
        inners = [inner_iterator(emit, inner) for inner in self.inners]
        emit.call(zip, [*inners, emit.const(self.strict)], ("strict",))


def those_before(number: int) -> str:
    return " 1" if number == 1 else f"s 1-{number}"


class Map(Iterator):
    """map(function, *inners)."""

    __slots__ = ("function", "inners")
    cls = map

    def __init__(self, function: Value, inners: list[Value], source: Source | None = None) -> None:
        super().__init__(source)
        self.function, self.inners = function, inners

    def next(self, tx: TraceContext) -> Value | None:
        return none_if_stopped(lambda: self.advance(tx))

    def advance(self, tx: TraceContext) -> Value:
        items = [tx.look(inner.advance(tx)) for inner in self.inners]
        return self.function.call(tx, items, {})

    def reconstruct(self, emit: Emitter) -> None:
        emit.call(map, [self.function, *(inner_iterator(emit, inner) for inner in self.inners)])


class Filter(Iterator):
    """filter(function or None, inner)."""

    __slots__ = ("function", "inner")
    cls = filter

    def __init__(self, function: Value, inner: Value, source: Source | None = None) -> None:
        super().__init__(source)
        self.function, self.inner = function, inner

    def next(self, tx: TraceContext) -> Value | None:
        by_truth = self.function.is_none()
        while (item := self.inner.next(tx)) is not None:
            item = tx.look(item)
            kept = item if by_truth else self.function.call(tx, [item], {})
            if kept.truth(tx):
                return item
        return None

    def reconstruct(self, emit: Emitter) -> None:
        emit.call(filter, [self.function, inner_iterator(emit, self.inner)])


class _Indexable:
    def __getitem__(self, index: int) -> int:
        raise IndexError


class ItemIterator(Iterator):
    """iter() of an object that has __getitem__ only."""

    __slots__ = ("of", "index")
    cls: type = type(iter(_Indexable()))
    state = ("index",)
    step = 1

    def __init__(self, of: Value) -> None:
        super().__init__()
        self.of, self.index = of, 0

    def next(self, tx: TraceContext) -> Value | None:
        if self.index < 0:
            return None
        tx.effects.change(self)
        try:
            item = self.of.item(tx, Constant(self.index))
        except ObservedException as error:
            if error.cls not in (IndexError, StopIteration):
                raise
            self.index = -1
            return None
        self.index += self.step
        return item

    def list_items(self, tx: TraceContext) -> list[Value]:
        self.of.ask_length(tx)
        return take(tx, self)

    def reconstruct(self, emit: Emitter) -> None:
        if self.index < 0:
            raise CannotReconstruct(self)
        emit.call(iterator_at, [self.of, emit.const(self.index)])


def iterator_at(obj: Any, index: int) -> Any:
    """Returns the iterator of an object with __getitem__ at an index."""
    iterator = iter(obj)
    iterator.__setstate__(index)
    return iterator


class ReversedItems(ItemIterator):
    """reversed() of an object that has __len__ and __getitem__ only, such as a ModuleList."""

    __slots__ = ("created_at",)
    cls = reversed
    step = -1

    def __init__(self, tx: TraceContext, of: Value) -> None:
        super().__init__(of)
        self.index = of.length(tx).constant() - 1
        self.created_at = tx.frames.break_position()

    def reconstruct(self, emit: Emitter) -> None:
        cls: Any = self.of.python_type()
        if not cls.__len__.__module__.startswith("torch."):  # reversed() calls it once more
            raise CannotReconstruct(self)
        emit.call(reversed, [self.of])
        emit.run_on_top(set_index, self.index)
