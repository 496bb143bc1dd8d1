"""collections.deque."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator
from typing import Any

from ....errors import GraphBreak
from ....guards.guard import Kind
from ....guards.iterators import advance
from ....guards.source import AttrSource, IteratorItem, Source
from ..base import CannotReconstruct, LazyValue, Value, require_path
from ..constant import Constant, call_now
from ..context import TraceContext
from ..emitter import Emitter
from ..operation import Operation
from ..registry import method, wraps
from .list import ListValue
from .sequence import SequenceIterator
from .slice import SliceValue

LARGEST_DEQUE = 1 << 13  # items of a deque that a capture looks at: finding one walks


class DequeValue(ListValue):
    """A deque. It drops items at the other end when it holds `maxlen`. `moves` counts the changes
    that invalidate its iterators. As of a list, what an existing one holds is not guarded while the
    program only adds to its end."""

    __slots__ = ("maxlen", "moves")
    default_class = collections.deque

    def __init__(
        self, items: list[Value], maxlen: int | None, source: Source | None = None
    ) -> None:
        super().__init__(items, source)
        self.maxlen, self.moves = maxlen, 0

    def snapshot(self) -> Any:
        return super().snapshot(), self.moves

    def restore(self, state: Any) -> None:
        items, self.moves = state
        super().restore(items)

    @property
    def keeps_its_items(self) -> bool:
        return super().keeps_its_items and self.maxlen is None

    def after_additions(self, items: list[Value]) -> list[Value]:
        return list(collections.deque(super().after_additions(items), self.maxlen))

    def path_of_item(self, index: int) -> Source:
        return IteratorItem(self.known_source, index)

    def length(self, tx: TraceContext) -> Value:
        """The length; that of an existing one that is full is `maxlen`."""
        if self.unread is None or self.maxlen is None:
            return super().length(tx)
        most = Constant(self.maxlen)
        if len(self.existing) == self.maxlen:
            tx.guards.add(self.source, Kind.LENGTH, self.maxlen)
            return most
        length = super().length(tx)
        return length if tx.objects.compare("<=", length, most).truth(tx) else most

    def move(self, tx: TraceContext) -> None:
        """Records a change that adds, removes or moves items. Called before the change."""
        tx.effects.change(self)
        self.moves += 1

    def iterate_live(self, tx: TraceContext) -> Iterator[Value]:
        """Yields items for comparisons. Python refuses a deque that a comparison changes."""
        before = self.moves
        for item in super().iterate_live(tx):
            yield item
            if self.moves != before:
                raise GraphBreak("exception-leaves", "RuntimeError of a deque that has changed")

    def set_item(self, tx: TraceContext, key: Value, value: Value) -> None:
        if self.source is not None:  # its iterators go on, but not after emit_changes
            raise GraphBreak("unsupported-mutation", "of an item of a deque")
        super().set_item(tx, key, value)

    def del_item(self, tx: TraceContext, key: Value) -> None:
        self.move(tx)
        super().del_item(tx, key)

    def attribute(self, tx: TraceContext, name: str) -> Value:
        return Constant(self.maxlen) if name == "maxlen" else super().attribute(tx, name)

    def item(self, tx: TraceContext, key: Value) -> Value:
        if isinstance(key, SliceValue):
            raise self.unsupported_use("a slice")
        found = self.item_from_end(tx, key)
        if found is not None:
            return found
        if (
            key.is_constant()
            and isinstance(key.constant(), int)
            and not -len(self.items) <= key.constant() < len(self.items)
        ):
            raise tx.exceptions.new(IndexError, "deque index out of range")
        return super().item(tx, key)

    def item_from_end(self, tx: TraceContext, key: Value) -> Value | None:
        known = isinstance(key, Constant) and type(key.object) is int
        if known and self.maxlen is not None and -key.constant() > self.maxlen:
            return None
        return super().item_from_end(tx, key)

    def iterator(self, tx: TraceContext) -> Value:
        return DequeIterator(tx, self)

    def reverse_iterator(self, tx: TraceContext) -> Value:
        raise self.unsupported_use("reversed()")

    def reconstruct(self, emit: Emitter) -> None:
        items = super().reconstruct
        emit.call(collections.deque, [lambda: items(emit), emit.const(self.maxlen)])

    def emit_changes(self, emit: Emitter) -> None:
        if self.unread is not None:
            added = ListValue(self.added)
            emit.run(collections.deque.extend, [self, lambda: added.reconstruct(emit)])
            return
        items = emit.builder.temp()  # made before the old ones are gone
        super().reconstruct(emit)
        emit.builder.store_slot(items)
        emit.run(collections.deque.clear, [self])
        emit.run(collections.deque.extend, [self, lambda: emit.builder.load_slot(items)])
        emit.builder.delete_slot(items)

    def operate(self, tx: TraceContext, op: Operation, other: Value) -> Value | None:
        if op.sign == "+=":
            self.method(tx, "extend", [other], {})
            return self
        raise self.unsupported_use(op.sign)

    def operate_reflected(self, tx: TraceContext, op: Operation, other: Value) -> Value | None:
        raise self.unsupported_use(op.sign)


class DequeIterator(SequenceIterator):
    """iter(deque). Any change of the deque is an error."""

    __slots__ = ("moves_of_deque", "created_at")

    def __init__(self, tx: TraceContext, sequence: DequeValue) -> None:
        super().__init__(sequence)
        self.moves_of_deque = sequence.moves
        self.created_at = tx.frames.break_position()

    def python_type(self) -> type:
        return type(iter(collections.deque()))

    def next(self, tx: TraceContext) -> Value | None:
        assert isinstance(self.sequence, DequeValue)
        if self.sequence.moves != self.moves_of_deque:
            raise self.unsupported_use("next() after the deque has changed")
        return super().next(tx)

    def move_to_index(self, emit: Emitter) -> None:
        assert isinstance(self.sequence, DequeValue)
        if self.sequence.moves != self.moves_of_deque:
            raise CannotReconstruct(self)
        emit.run_on_top(advance, self.index, False)  # one of a deque cannot be set


def _changing(name: str, read: Callable[[TraceContext, Value], Any]) -> None:
    """A method that changes the items as Python's does. `read` reads its arguments."""

    @method(collections.deque, name)
    def change(tx: TraceContext, self: DequeValue, *args: Value) -> Value:
        given = [read(tx, arg) for arg in args]
        self.move(tx)
        if name == "clear" and not given:
            self.items = []
            return Constant(None)
        if self.unread is not None and name in ("append", "extend") and len(given) == 1:
            self.added.extend(given if name == "append" else given[0])
            return Constant(None)
        made = collections.deque(self.items, self.maxlen)
        result = call_now(tx, getattr(made, name), *given)
        self.items = list(made)
        return Constant(None) if result is None else tx.look(result)


for _name in ("append", "appendleft", "clear", "pop", "popleft"):
    _changing(_name, lambda tx, item: item)
for _name in ("extend", "extendleft"):
    _changing(_name, lambda tx, items: items.unpack(tx))
_changing("rotate", lambda tx, steps: steps.constant())


@method(collections.deque, "copy")
def copy(tx: TraceContext, self: DequeValue) -> Value:
    return DequeValue(list(self.items), self.maxlen)


@wraps(collections.deque)
def wrap_deque(tx: TraceContext, obj: collections.deque[Any], source: Source | None) -> Value:
    """A deque, whose items are read when first used."""
    path = require_path(obj, source)
    tx.guards.add(path, Kind.TYPE, collections.deque)
    tx.guards.add(AttrSource(path, "maxlen"), Kind.EQUALS, obj.maxlen)
    value = DequeValue([], obj.maxlen, path)
    value.existing = obj

    def read(value: ListValue) -> list[Value]:
        if len(obj) > LARGEST_DEQUE:
            raise GraphBreak("unsupported-value", f"a deque of {len(obj)} items")
        tx.effects.read(value)
        tx.guards.add(path, Kind.LENGTH, len(obj))
        return [LazyValue(item, IteratorItem(path, index)) for index, item in enumerate(obj)]

    value.unread = read
    return tx.objects.remember(obj, value)
