"""Lists, tuples, named tuples and torch.Size."""

from __future__ import annotations

import collections
import functools
import inspect
import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from ....errors import GraphBreak
from ....guards.guard import Kind
from ....guards.source import SequenceItem, Source
from ..base import CannotReconstruct, LazyValue, ObservedException, Value, check_result_type
from ..constant import Constant, is_literal_or_tuple
from ..context import TraceContext
from ..emitter import Emitter
from ..mutable import Mutable
from ..operation import COMPARE, Operation
from ..registry import method, method_of, wraps
from .builtin_container import BuiltinContainer
from .sequence_iterator import SequenceIterator
from .slice import SliceValue

LARGEST = 1 << 18  # items of a list or tuple that are realised

# what a named tuple's class has under the name of a field
FIELD: type = type(vars(collections.namedtuple("Named", "field"))["field"])


class Sequence(BuiltinContainer):
    """An ordered container of known length. Items may be LazyValue."""

    __slots__ = ("items", "cls")
    state = ("items",)
    default_class: type = object

    def __init__(
        self, items: list[Value], source: Source | None = None, cls: type | None = None
    ) -> None:
        super().__init__(source)
        self.items = items
        self.cls = cls or self.default_class

    def at(self, tx: TraceContext, index: int) -> Value:
        """The item at an index, realised."""
        value = self.items[index]
        if type(value) is LazyValue:
            tx.effects.read(self)
            value = self.items[index] = tx.look(value)
        return value

    def all(self, tx: TraceContext) -> list[Value]:
        """Every item, realised."""
        return [self.at(tx, i) for i in range(len(self.items))]

    def unpack(self, tx: TraceContext) -> list[Value]:
        return self.all(tx)

    def parts(self, tx: TraceContext) -> list[Value]:
        """Every item; a LazyValue item stays LazyValue."""
        return list(self.items)

    def literal(self, tx: TraceContext) -> Any:
        if self.is_constant():
            return self.constant()
        if self.cls not in (list, tuple):
            raise self.unsupported_use("as an argument")
        return self.cls(item.literal(tx) for item in self.all(tx))

    def length(self, tx: TraceContext) -> Value:
        return Constant(len(self.items))

    def iterator(self, tx: TraceContext) -> Value:
        return SequenceIterator(self)

    def backwards(self, tx: TraceContext) -> Value:
        """reversed(sequence)."""
        return SequenceIterator(self, len(self.items) - 1, -1)

    def item(self, tx: TraceContext, key: Value) -> Value:
        if isinstance(key, SliceValue):
            try:
                part = self.items[key.constant()]
            except (TypeError, ValueError) as error:
                raise tx.exceptions.new(type(error), *error.args) from None
            return type(self)(part, None, list if self.cls is list else self._slice_class())
        if not key.is_constant():
            found = (
                key.attribute(tx, "__index__") if hasattr(key.python_type(), "__index__") else None
            )
            if not isinstance(key, Mutable) or found is None:
                raise key.unsupported_use("as an index")
            key = check_result_type(found.call(tx, [], {}), int, "__index__")
        index = key.constant()
        try:
            self.items[index]
        except (IndexError, TypeError) as error:
            text = str(error).replace(
                "list", self.cls.__name__ if self.cls in (list, tuple) else "tuple"
            )
            raise tx.exceptions.new(type(error), text) from None
        return self.at(tx, index)

    def _slice_class(self) -> type:
        return torch.Size if self.cls is torch.Size else tuple

    def iterate_live(self, tx: TraceContext) -> Iterator[Value]:
        """Yields items as a loop in C does: a change of the sequence meanwhile is seen."""
        index = 0
        while index < len(self.items):
            yield self.at(tx, index)
            index += 1

    def contains(self, tx: TraceContext, item: Value) -> Value:
        return Constant(
            any(tx.objects.equal(candidate, item) for candidate in self.iterate_live(tx))
        )

    def operate(self, tx: TraceContext, op: Operation, other: Value) -> Value | None:
        """Concatenates or repeats."""
        if op.symbol == "+":
            right = other if op.in_place else other.content()
            return self._concatenate(right) if type(right) is type(self) else None
        return self.operate_reflected(tx, op, other)

    def operate_reflected(self, tx: TraceContext, op: Operation, other: Value) -> Value | None:
        if op.symbol != "*" or not other.is_constant():
            return None
        items, cls = repeat_items(tx, self, other), repetition_class(self.cls)
        return one_of(type(self)(items, None, cls), [self])

    def _concatenate(self, right: Sequence) -> Value:
        cls = sum_class(self.cls, right.cls)
        items = [*self.items, *right.items]
        if cls is torch.Size and any(item.python_type() is not int for item in items):
            raise self.unsupported_use("the sum with a tuple of other objects than ints")
        made = type(self)(items, None, cls)
        whole = [side for side, rest in ((right, self), (self, right)) if not rest.items]
        return one_of(made, whole)

    def compare(self, tx: TraceContext, op: Operation, other: Value) -> Value | None:
        return compare_sequences(tx, op, self, other) if isinstance(other, Sequence) else None


def field_names(cls: type) -> tuple[str, ...]:
    """The names of a named tuple's fields; empty for other tuples."""
    return getattr(cls, "_fields", ())


class TupleValue(Sequence):
    """A tuple, named tuple, torch.Size or torch.return_types structure; `real` when it existed
    before the frame."""

    __slots__ = ("real",)
    default_class: type = tuple

    def __init__(
        self,
        items: list[Value],
        source: Source | None = None,
        cls: type | None = None,
        real: tuple[Any, ...] | None = None,
    ) -> None:
        super().__init__(items, source, cls)
        self.real = real

    def key(self, tx: TraceContext) -> Any:
        return tuple(item.key(tx) for item in self.items)

    def is_constant(self) -> bool:
        return all(item.is_constant() for item in self.items) and (
            self.cls in (tuple, torch.Size) or hasattr(self.cls, "_make")
        )

    def varies(self) -> bool:
        return any(item.varies() for item in self.items)

    def constant(self) -> Any:
        items = [item.constant() for item in self.items]
        return self.cls(*items) if hasattr(self.cls, "_make") else self.cls(items)

    def attribute(self, tx: TraceContext, name: str) -> Value:
        if name == "__class__":
            return tx.wrap(self.cls, None)
        fields = field_names(self.cls)
        if name in fields and type(inspect.getattr_static(self.cls, name)) is FIELD:
            return self.at(tx, fields.index(name))
        if self.cls.__module__ == "torch.return_types" and name in dir(self.cls):
            return self.at(tx, _structure_fields(self.cls).index(name))
        if self.cls not in (tuple, torch.Size) and method_of(self.cls, name) is None:
            return tx.calls.class_attribute(self, self.cls, name)
        return super().attribute(tx, name)

    def method(
        self, tx: TraceContext, name: str, args: list[Value], kwargs: dict[str, Value]
    ) -> Value:
        if self.cls not in (tuple, torch.Size) and method_of(self.cls, name) is None:
            return self.attribute(tx, name).call(tx, args, kwargs)
        return super().method(tx, name, args, kwargs)

    def item(self, tx: TraceContext, key: Value) -> Value:
        found = super().item(tx, key)
        whole = isinstance(key, SliceValue) and key.constant().step in (None, 1)
        return one_of(found, [self]) if whole and isinstance(found, TupleValue) else found

    def same(self, other: Value) -> bool:
        """Whether it is the same object; there is only one empty tuple."""
        empty = self.cls is tuple and not self.items
        return (
            self is other
            or empty
            and isinstance(other, TupleValue)
            and other.cls is tuple
            and not other.items
        )

    def reconstruct(self, emit: Emitter) -> None:
        if self.cls is tuple:
            emit.push_tuple(self.items)
        elif hasattr(self.cls, "_make"):
            emit.call(tuple.__new__, [emit.const(self.cls), lambda: emit.push_tuple(self.items)])
        else:  # torch.Size and torch.return_types
            emit.call(self.cls, [lambda: emit.push_tuple(self.items)])

    def new_arguments(self, emit: Emitter) -> list[Callable[[], None]]:
        return [lambda: self.reconstruct(emit)]


def one_of(made: Sequence, operands: Iterable[Sequence]) -> Sequence:
    """Returns the operand itself where an operation would make an equal exact tuple of all its
    items, as Python does; else `made`."""
    for operand in operands:
        if (
            made.cls is operand.cls is tuple
            and operand.outer is None
            and len(made.items) == len(operand.items)
        ):
            return operand
    return made


def _structure_fields(cls: type) -> list[str]:
    """Field names of a structure sequence, in order."""
    return [name for name in cls.__match_args__]  # type: ignore[attr-defined]


ITEMS: Any = vars(Sequence)["items"]


class ListValue(Sequence):
    """A list (exactly; a subclass is a user object with a list inside). `unread` gives the items of
    an existing list to which the program has only added so far, so that its length is not guarded
    yet."""

    __slots__ = ("unread", "added")
    default_class: type = list

    def __init__(
        self, items: list[Value], source: Source | None = None, cls: type | None = None
    ) -> None:
        self.unread: Callable[[], list[Value]] | None = None
        self.added: list[Value] = []
        super().__init__(items, source, cls)

    @property
    def items(self) -> list[Value]:  # a slot of Sequence, which it fills at the first look
        if self.unread is not None:
            items = [*self.unread(), *self.added]
            self.unread = None
            ITEMS.__set__(self, items)
        return ITEMS.__get__(self)

    @items.setter
    def items(self, items: list[Value]) -> None:
        self.unread = None
        ITEMS.__set__(self, items)

    def add(self, tx: TraceContext, new: list[Value]) -> None:
        """Adds items at the end."""
        tx.effects.change(self)
        (self.items if self.unread is None else self.added).extend(new)

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

    def set_item(self, tx: TraceContext, key: Value, value: Value) -> None:
        tx.effects.change(self)
        try:
            if isinstance(key, SliceValue):
                self.items[key.constant()] = value.unpack(tx)
            else:
                self.items[key.constant()] = value
        except (IndexError, TypeError, ValueError) as error:
            raise tx.exceptions.new(type(error), *error.args) from None

    def del_item(self, tx: TraceContext, key: Value) -> None:
        tx.effects.change(self)
        try:
            del self.items[key.constant()]
        except (IndexError, TypeError) as error:
            raise tx.exceptions.new(type(error), *error.args) from None

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


def whole_number(tx: TraceContext, index: Value) -> Any:
    found = index.constant()
    if not hasattr(type(found), "__index__"):
        raise tx.exceptions.new(
            TypeError, f"'{type(found).__name__}' object cannot be interpreted as an integer"
        )
    return found


@method(list, "insert")
def list_insert(tx: TraceContext, self: ListValue, index: Value, item: Value) -> Value:
    where = whole_number(tx, index)
    tx.effects.change(self)
    self.items.insert(where, item)
    return Constant(None)


@method(list, "pop")
def list_pop(tx: TraceContext, self: ListValue, index: Value | None = None) -> Value:
    where = -1 if index is None else whole_number(tx, index)
    if not -len(self.items) <= where < len(self.items):
        raise tx.exceptions.new(
            IndexError, "pop index out of range" if self.items else "pop from empty list"
        )
    item = self.at(tx, where)
    tx.effects.change(self)
    del self.items[where]
    return item


@method(list, "clear")
def list_clear(tx: TraceContext, self: ListValue) -> Value:
    tx.effects.change(self)
    self.items = []
    return Constant(None)


@method(list, "remove")
def list_remove(tx: TraceContext, self: ListValue, item: Value) -> Value:
    found = find(tx, self, item)
    if found is None:
        raise tx.exceptions.new(ValueError, "list.remove(x): x not in list")
    tx.effects.change(self)
    del self.items[found : found + 1]
    return Constant(None)


@method(list, "reverse")
def list_reverse(tx: TraceContext, self: ListValue) -> Value:
    tx.effects.change(self)
    self.items = self.items[::-1]
    return Constant(None)


@method(list, "copy")
def list_copy(tx: TraceContext, self: ListValue) -> Value:
    return ListValue(list(self.items))


@method(list, "sort")
def list_sort(
    tx: TraceContext, self: ListValue, *, key: Value | None = None, reverse: Value | None = None
) -> Value:
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


def find(tx: TraceContext, self: Sequence, item: Value, *bounds: Value) -> int | None:
    """The position of the first equal item between bounds; None if there is none."""
    for index in range(len(self.items))[
        slice(*(bound.constant() for bound in bounds))
        if len(bounds) > 1
        else slice(_start(bounds), None)
    ]:
        if index < len(self.items) and tx.objects.equal(self.at(tx, index), item):
            return index
    return None


@method((list, tuple), "index")
def sequence_index(tx: TraceContext, self: Sequence, item: Value, *bounds: Value) -> Value:
    found = find(tx, self, item, *bounds)
    if found is not None:
        return Constant(found)
    if not item.is_constant():
        raise GraphBreak("exception-leaves", "ValueError")
    raise tx.exceptions.new(
        ValueError,
        f"{item.constant()!r} is not in list"
        if self.cls is list
        else "tuple.index(x): x not in tuple",
    )


def _start(bounds: tuple[Value, ...]) -> int:
    return bounds[0].constant() if bounds else 0


@method((list, tuple), "count")
def sequence_count(tx: TraceContext, self: Sequence, item: Value) -> Value:
    return Constant(sum(tx.objects.equal(candidate, item) for candidate in self.iterate_live(tx)))


@method(list, "__reversed__")
def list_reversed(tx: TraceContext, self: ListValue) -> Value:
    return self.backwards(tx)


@method(list, "__init__")
def list_init(tx: TraceContext, self: ListValue, items: Value | None = None) -> Value:
    new = [] if items is None else items.list_items(tx)
    tx.effects.change(self)
    self.items = list(new)
    return Constant(None)


@method(torch.Size, "numel")
def size_numel(tx: TraceContext, self: TupleValue) -> Value:
    return tx.wrap(torch.Size(item.constant() for item in self.items).numel(), None)


@method(tuple, "_replace")
def named_tuple_replace(tx: TraceContext, self: TupleValue, **changes: Value) -> Value:
    fields = field_names(self.cls)
    if not changes.keys() <= set(fields):
        raise GraphBreak("exception-leaves", f"the error of {self.cls.__name__}._replace()")
    return TupleValue(
        [changes.get(name, item) for name, item in zip(fields, self.all(tx), strict=True)],
        None,
        self.cls,
    )


@method(tuple, "_asdict")
def named_tuple_asdict(tx: TraceContext, self: TupleValue) -> Value:
    return tx.make.dict_of(
        [
            (Constant(name), item)
            for name, item in zip(field_names(self.cls), self.all(tx), strict=True)
        ]
    )


def wrapped_items(tx: TraceContext, obj: Any, source: Source | None) -> list[Value]:
    if source is None:
        return [tx.wrap(item, None) for item in obj]
    if len(obj) > LARGEST:
        raise GraphBreak("unsupported-value", f"a {type(obj).__name__} of {len(obj)} items")
    tx.guards.add(source, Kind.TYPE, type(obj))
    tx.guards.add(source, Kind.LENGTH, len(obj))
    return [LazyValue(item, SequenceItem(source, index)) for index, item in enumerate(tuple(obj))]


@wraps(tuple, torch.Size)
def wrap_tuple(tx: TraceContext, obj: tuple[Any, ...], source: Source | None) -> Value:
    if (
        source is not None
        and is_literal_or_tuple(obj)
        and not (type(obj) is tuple and tx.symbols.tuple_varies(source, obj))
    ):
        tx.guards.add(source, Kind.EQUALS, obj)
        return TupleValue(
            [
                Constant(item) if not isinstance(item, tuple) else tx.wrap(item, None)
                for item in obj
            ],
            source,
            type(obj),
            obj,
        )
    return TupleValue(
        wrapped_items(tx, obj, source), source, type(obj), None if source is None else obj
    )


@wraps(list)
def wrap_list(tx: TraceContext, obj: list[Any], source: Source | None) -> Value:
    if source is None:
        return ListValue(wrapped_items(tx, obj, None))
    tx.guards.add(source, Kind.TYPE, list)
    value = ListValue([], source)

    def read() -> list[Value]:
        tx.effects.read(value)
        return wrapped_items(tx, obj, source)

    value.unread = read
    return tx.objects.remember(obj, value)


def wrap_named_tuple(tx: TraceContext, obj: tuple[Any, ...], source: Source | None) -> Value:
    return TupleValue(
        wrapped_items(tx, obj, source), source, type(obj), None if source is None else obj
    )


def is_named_tuple(obj: Any) -> bool:
    cls = type(obj)
    return (
        issubclass(cls, tuple)
        and not cls.__dictoffset__
        and (hasattr(cls, "_make") or cls.__module__ == "torch.return_types")
    )


LONGEST_REPETITION = 1 << 16  # items


def repeat_items(tx: TraceContext, of: Sequence, times: Value) -> list[Value]:
    """The items of a sequence, repeated."""
    number = times.constant()
    if not hasattr(type(number), "__index__"):
        raise tx.exceptions.new(
            TypeError, f"can't multiply sequence by non-int of type '{type(number).__name__}'"
        )
    if len(of.items) * operator.index(number) > LONGEST_REPETITION:
        raise GraphBreak("unsupported-operator", f"{of.describe()} * {number}, which is very long,")
    return of.items * operator.index(number)


@functools.cache
def sum_class(left: type, right: type) -> type:
    """type(left() + right()) of lists or tuples. Whether torch.Size keeps its class depends on
    torch's version."""
    if left is list:
        return list
    made: list[tuple[Any, ...]] = [
        cls() if cls in (tuple, torch.Size) else () for cls in (left, right)
    ]
    return type(made[0] + made[1])


@functools.cache
def repetition_class(cls: type) -> type:
    """type(cls() * 2) of lists and tuples."""
    if cls is list:
        return list
    return type(cls() * 2) if cls in (tuple, torch.Size) else tuple


def compare_sequences(tx: TraceContext, op: Operation, left: Sequence, right: Sequence) -> Value:
    """Compares by the first items that differ, then by length."""
    if type(left) is not type(right):
        if op.is_equality:
            return Constant(op.sign == "!=")
        raise tx.exceptions.new(
            TypeError,
            f"'{op.sign}' not supported between instances of '{left.cls.__name__}' and "
            f"'{right.cls.__name__}'",
        )
    if op.is_equality and len(left.items) != len(right.items):
        return Constant(op.sign == "!=")
    pairs = zip(left.iterate_live(tx), right.iterate_live(tx), strict=False)
    for index, (a, b) in enumerate(pairs):
        if not tx.objects.equal(a, b):
            if index >= min(len(left.items), len(right.items)):  # comparing them emptied a list
                break
            return (
                Constant(op.sign == "!=") if op.is_equality else tx.objects.compare(op.sign, a, b)
            )
    return Constant(op.function(len(left.items), len(right.items)))


def _comparison(op: Operation) -> None:
    @method(list, op.name)
    @method(tuple, op.name)
    def compare_base(tx: TraceContext, self: Sequence, other: Value) -> Value:
        """The comparison of list or tuple itself, whatever a subclass defines."""
        inner = other.content()
        if not isinstance(inner, type(self)):
            return Constant(NotImplemented)
        return compare_sequences(tx, op, self, inner)


for _op in COMPARE.values():
    _comparison(_op)


@method((list, tuple), "__add__")
def sequence_add(tx: TraceContext, self: Sequence, other: Value) -> Value:
    inner = other.content()
    if not isinstance(inner, type(self)):
        raise self.unsupported_use("+")
    return tx.objects.operate("+", self, inner)


@method((list, tuple), "__mul__", "__rmul__")
def sequence_mul(tx: TraceContext, self: Sequence, times: Value) -> Value:
    return tx.objects.operate("*", self, times)


@method(list, "__iadd__")
def list_iadd(tx: TraceContext, self: ListValue, other: Value) -> Value:
    list_extend(tx, self, other)
    return self.outer or self


@method(list, "__imul__")
def list_imul(tx: TraceContext, self: ListValue, times: Value) -> Value:
    tx.objects.operate("*=", self, times)
    return self.outer or self
