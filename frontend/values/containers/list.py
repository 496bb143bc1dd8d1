"""Lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ....errors import GraphBreak
from ....guards.guard import Kind
from ....guards.source import CalculatedNumber, SequenceItem, Source
from ..base import CannotReconstruct, ObservedException, Value
from ..constant import Constant, call_now
from ..context import TraceContext
from ..emitter import Emitter
from ..iterators.iterator import LITERALS, UNROLLED_LENGTHS, VARYING_LIST
from ..operation import Operation
from ..registry import method, wraps
from .sequence import Sequence, find_item, repeat_items, wrapped_items
from .slice import SliceValue

ITEMS: Any = vars(Sequence)["items"]


class ListValue(Sequence):
    """A list (exactly; a subclass is a user object with a list inside). `unread` gives the items of
    an `existing` list to which the program has only added so far, so that its length is not guarded
    yet."""

    __slots__ = ("unread", "added", "existing")
    default_class: type = list

    def __init__(
        self, items: list[Value], source: Source | None = None, cls: type | None = None
    ) -> None:
        self.unread: Callable[[ListValue], list[Value]] | None = None
        self.added: list[Value] = []
        self.existing: Any = []  # of no use once its items are read
        super().__init__(items, source, cls)

    @property
    def items(self) -> list[Value]:  # a slot of Sequence, which it fills at the first look
        if self.unread is not None:
            items = self.after_additions(self.unread(self))
            self.unread = None
            ITEMS.__set__(self, items)
        return ITEMS.__get__(self)

    @items.setter
    def items(self, items: list[Value]) -> None:
        self.unread = None
        ITEMS.__set__(self, items)

    @property
    def keeps_its_items(self) -> bool:
        """Whether the program has only added to an existing list, and so dropped nothing."""
        return self.unread is not None

    def lost_objects(self, tx: TraceContext) -> Iterable[Any] | None:
        return [] if self.keeps_its_items else super().lost_objects(tx)

    def after_additions(self, items: list[Value]) -> list[Value]:
        """The items now, given those of the existing list."""
        return [*items, *self.added]

    def add(self, tx: TraceContext, new: list[Value]) -> None:
        """Adds items at the end."""
        tx.effects.change(self)
        (self.items if self.unread is None else self.added).extend(new)

    def length(self, tx: TraceContext) -> Value:
        """A symbol for the length of an existing list that grows."""
        if self.unread is None:
            return super().length(tx)
        path, count = CalculatedNumber(self.known_source, len), len(self.existing)
        if not tx.symbols.is_symbolic(path, count):
            return super().length(tx)
        return tx.objects.operate("+", tx.symbols.input(count, path), Constant(len(self.added)))

    def varies_in_length(self, tx: TraceContext) -> bool:
        """Whether it is an existing list of which calls have had several lengths, and that holds
        literals or grows."""
        if self.unread is None:
            return False
        if not all(type(item) in LITERALS for item in self.existing):
            return self.grows(tx)
        path, known = CalculatedNumber(self.known_source, len), tx.symbols.variation
        varies = tx.symbols.is_symbolic(path, len(self.existing))
        return varies and (known.takes_many(path) or known.captures >= UNROLLED_LENGTHS)

    def grows(self, tx: TraceContext) -> bool:
        """Whether calls have had several lengths of an existing list to which the program adds, so
        that they hardly come again; or this was found before a break."""
        path, known = CalculatedNumber(self.known_source, len), tx.symbols.variation
        found = known.takes_many(path)
        if not (self.added or known.grows(path) or found):
            return False
        varies = tx.symbols.is_symbolic(path, len(self.existing))
        return varies and (found or known.changes(path) >= UNROLLED_LENGTHS - 1)

    def item(self, tx: TraceContext, key: Value) -> Value:
        return self.item_from_end(tx, key) or super().item(tx, key)

    def item_from_end(self, tx: TraceContext, key: Value) -> Value | None:
        """An item counted from the end, of a list that grows: it is read without the others. None
        where all of them have to be read."""
        if self.unread is None or not isinstance(key, Constant) or type(key.object) is not int:
            return None
        index = key.object
        if -len(self.added) <= index < 0:
            return tx.look(self.added[index])
        index += len(self.added)
        if -len(self.existing) <= index < 0:
            return tx.objects.wrap_held(self.existing[index], self.path_of_item(index))
        return None

    def path_of_item(self, index: int) -> Source:
        """The path to an item of the existing list."""
        return SequenceItem(self.known_source, index)

    def snapshot(self) -> Any:
        return self.unread, list(self.added if self.unread is not None else self.items)

    def restore(self, state: Any) -> None:
        self.unread, items = None, state[1]
        if state[0] is None:
            self.items = items
        else:
            self.unread, self.added = state

    def is_constant(self) -> bool:
        return False

    def apply(self, tx: TraceContext, change: Callable[..., Any], *arguments: Any) -> Any:
        """Changes the items as Python changes a list; returns the result. Raises in the traced
        program what Python raises."""
        tx.effects.change(self)
        return call_now(tx, change, self.items, *arguments)

    def set_item(self, tx: TraceContext, key: Value, value: Value) -> None:
        new = value.unpack(tx) if isinstance(key, SliceValue) else value
        self.apply(tx, list.__setitem__, key.constant(), new)

    def del_item(self, tx: TraceContext, key: Value) -> None:
        self.apply(tx, list.__delitem__, key.constant())

    def reconstruct(self, emit: Emitter) -> None:
        if any(item is self for item in self.items):
            raise CannotReconstruct(self)
        emit.push_list(self.items)

    def emit_changes(self, emit: Emitter) -> None:
        if self.unread is not None:
            added = ListValue(self.added)
            emit.run(list.extend, [self, lambda: added.reconstruct(emit)])
        else:
            everything = emit.const(slice(None))
            emit.run(list.__setitem__, [self, everything, lambda: self.reconstruct(emit)])

    def emit_fill(self, emit: Emitter, obj: Value) -> None:
        emit.run(list.extend, [obj, lambda: self.reconstruct(emit)])

    def operate(self, tx: TraceContext, op: Operation, other: Value) -> Value | None:
        if op.sign == "+=":
            list_extend(tx, self, other)
            return self
        if op.sign == "*=" and other.is_constant():
            items = repeat_items(tx, self, other)
            tx.effects.change(self)
            self.items = items
            return self
        return super().operate(tx, op, other)


@method(list, "append")
def list_append(tx: TraceContext, self: ListValue, item: Value) -> Value:
    self.add(tx, [item])
    return Constant(None)


@method(list, "extend")
def list_extend(tx: TraceContext, self: ListValue, items: Value) -> Value:
    self.add(tx, list(items.list_items(tx)))
    return Constant(None)


@method(list, "insert")
def list_insert(tx: TraceContext, self: ListValue, index: Value, item: Value) -> Value:
    self.apply(tx, list.insert, index.constant(), item)
    return Constant(None)


@method(list, "pop")
def list_pop(tx: TraceContext, self: ListValue, index: Value | None = None) -> Value:
    return tx.look(self.apply(tx, list.pop, -1 if index is None else index.constant()))


@method(list, "clear")
def list_clear(tx: TraceContext, self: ListValue) -> Value:
    tx.effects.change(self)
    self.items = []
    return Constant(None)


@method(list, "remove")
def list_remove(tx: TraceContext, self: ListValue, item: Value) -> Value:
    found = find_item(tx, self, item)
    if found is None:
        raise tx.exceptions.new(ValueError, "list.remove(x): x not in list")
    self.apply(tx, list.__delitem__, slice(found, found + 1))
    return Constant(None)


@method(list, "reverse")
def list_reverse(tx: TraceContext, self: ListValue) -> Value:
    self.apply(tx, list.reverse)
    return Constant(None)


@method(list, "copy")
def list_copy(tx: TraceContext, self: ListValue) -> Value:
    return ListValue(list(self.items))


@method(list, "sort")
def list_sort(
    tx: TraceContext, self: ListValue, *, key: Value | None = None, reverse: Value | None = None
) -> Value:
    """Sorts in place. Keys and comparisons that change the list raise ValueError, as in Python."""
    items = self.all(tx)
    tx.effects.change(self)
    self.items = []  # while it is sorted a list is empty, as keys and comparisons may see
    try:
        ordered = tx.calls.sort(items, key, reverse)
    except ObservedException:
        self.items = items
        raise
    modified, self.items = bool(self.items), ordered
    if modified:
        raise tx.exceptions.new(ValueError, "list modified during sort")
    return Constant(None)


@method(list, "__reversed__")
def list_reversed(tx: TraceContext, self: ListValue) -> Value:
    return self.reverse_iterator(tx)


@method(list, "__init__")
def list_init(tx: TraceContext, self: ListValue, items: Value | None = None) -> Value:
    new = [] if items is None else items.list_items(tx)
    tx.effects.change(self)
    self.items = list(new)
    return Constant(None)


@wraps(list)
def wrap_list(tx: TraceContext, obj: list[Any], source: Source | None) -> Value:
    """A list, whose items are read when first used."""
    if source is None:
        return ListValue(wrapped_items(tx, obj, None))
    tx.guards.add(source, Kind.TYPE, list)
    value = ListValue([], source)
    value.existing = obj

    # the list is an argument: a function that held it would be in a reference cycle with it
    def read(value: ListValue) -> list[Value]:
        if not tx.options.fullgraph and value.grows(tx):
            raise GraphBreak("unsupported-value", VARYING_LIST)
        tx.effects.read(value)
        return wrapped_items(tx, obj, source)

    value.unread = read
    return tx.objects.remember(obj, value)


@method(list, "__iadd__")
def list_iadd(tx: TraceContext, self: ListValue, other: Value) -> Value:
    list_extend(tx, self, other)
    return self.outer or self


@method(list, "__imul__")
def list_imul(tx: TraceContext, self: ListValue, times: Value) -> Value:
    tx.objects.operate("*=", self, times)
    return self.outer or self
