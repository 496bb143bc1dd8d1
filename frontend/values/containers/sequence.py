"""Tuples, named tuples and torch.Size, and what lists have in common with them."""

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
from ..base import Args, Kwargs, LazyValue, Value, check_result_type
from ..constant import Constant, call_now, is_literal_or_tuple
from ..context import TraceContext
from ..emitter import Emitter
from ..iterators.iterator import Iterator as ValueIterator
from ..iterators.iterator import set_index
from ..mutable import Mutable
from ..operation import COMPARE, Operation
from ..registry import method, method_of, wraps
from .builtin_container import BuiltinContainer
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

    def graph_argument(self, tx: TraceContext) -> tuple[Any, Any]:
        pairs = [tx.graph.argument(item) for item in self.items]
        make = list if self.cls is list else tuple
        return make(node for node, _ in pairs), make(fake for _, fake in pairs)

    def length(self, tx: TraceContext) -> Value:
        return Constant(len(self.items))

    def iterator(self, tx: TraceContext) -> Value:
        return SequenceIterator(self)

    def reverse_iterator(self, tx: TraceContext) -> Value:
        return SequenceIterator(self, len(self.items) - 1, -1)

    def item(self, tx: TraceContext, key: Value) -> Value:
        """self[key]. Raises what Python raises, with its text, for an index that is out of range or
        none."""
        if isinstance(key, SliceValue):
            part = call_now(tx, self.items.__getitem__, key.constant())
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
            any(tx.objects.is_equal(candidate, item) for candidate in self.iterate_live(tx))
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
            raise self.unsupported_use("`+` with a tuple that holds other objects than ints")
        made = type(self)(items, None, cls)
        whole = [side for side, rest in ((right, self), (self, right)) if not rest.items]
        return one_of(made, whole)

    def compare(self, tx: TraceContext, op: Operation, other: Value) -> Value | None:
        return compare_sequences(tx, op, self, other) if isinstance(other, Sequence) else None


class SequenceIterator(ValueIterator):
    """iter() or reversed() of a list or tuple. Reads the current items of the sequence, as CPython
    does."""

    __slots__ = ("sequence", "index", "step")
    state = ("index",)

    def __init__(
        self, sequence: Sequence, index: int = 0, step: int = 1, source: Source | None = None
    ) -> None:
        super().__init__(source)
        self.sequence, self.index, self.step = sequence, index, step

    def python_type(self) -> type:
        empty: Any = [] if issubclass(self.sequence.cls, list) else ()
        return type(iter(empty)) if self.step == 1 else type(reversed(empty))

    def varies_in_length(self, tx: TraceContext) -> bool:
        return self.sequence.varies_in_length(tx)

    def next(self, tx: TraceContext) -> Value | None:
        if not 0 <= self.index < len(self.sequence.items):
            if self.index >= 0:  # from now on it is exhausted, whatever the sequence gets
                tx.effects.change(self)
                self.index = -1
            return None
        tx.effects.change(self)
        item = self.sequence.at(tx, self.index)
        self.index += self.step
        return item

    def reconstruct(self, emit: Emitter) -> None:
        if self.step != 1:
            emit.call(reversed, [self.sequence])
        else:
            if self.index >= 0:
                emit.push(self.sequence)
            elif self.sequence.cls is tuple:
                emit.builder.load_const(())
            else:
                emit.builder.build_list(0)
            emit.builder.get_iter()
        self.move_to_index(emit)

    def move_to_index(self, emit: Emitter) -> None:
        """Emits code that moves the new iterator on top of the stack to where this one is."""
        emit.run_on_top(set_index, self.index)


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
        return tuple(item.key(tx) for item in self.all(tx))

    def is_constant(self) -> bool:
        return all(item.is_constant() for item in self.items) and (
            self.cls in (tuple, torch.Size) or is_namedtuple_class(self.cls)
        )

    def varies(self) -> bool:
        return any(item.varies() for item in self.items)

    def constant(self) -> Any:
        items = [item.constant() for item in self.items]
        return self.cls(*items) if is_namedtuple_class(self.cls) else self.cls(items)

    def attribute(self, tx: TraceContext, name: str) -> Value:
        if name == "__class__":
            return tx.wrap(self.cls, None)
        fields = field_names(self.cls)
        if name in fields and type(inspect.getattr_static(self.cls, name)) is FIELD:
            return self.at(tx, fields.index(name))
        if self.cls.__module__ == "torch.return_types" and name in dir(self.cls):
            return self.at(tx, self.cls.__match_args__.index(name))
        if self.cls not in (tuple, torch.Size) and method_of(self.cls, name) is None:
            return tx.calls.class_attribute(self, self.cls, name)
        return super().attribute(tx, name)

    def method(self, tx: TraceContext, name: str, args: Args, kwargs: Kwargs) -> Value:
        if self.cls not in (tuple, torch.Size) and method_of(self.cls, name) is None:
            return self.attribute(tx, name).call(tx, args, kwargs)
        return super().method(tx, name, args, kwargs)

    def item(self, tx: TraceContext, key: Value) -> Value:
        found = super().item(tx, key)
        whole = isinstance(key, SliceValue) and key.constant().step in (None, 1)
        return one_of(found, [self]) if whole and isinstance(found, TupleValue) else found

    def is_same(self, other: Value) -> bool:
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
        elif is_namedtuple_class(self.cls):
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


def nested_items(tx: TraceContext, value: Value) -> Iterator[Value]:
    """The items of lists and tuples within each other; the value itself if it is neither."""
    value = tx.look(value)
    if isinstance(value, Sequence):
        for item in value.items:
            yield from nested_items(tx, item)
    else:
        yield value


def find_item(tx: TraceContext, self: Sequence, item: Value, *bounds: Value) -> int | None:
    """The position of the first equal item between bounds; None if there is none."""
    for index in range(len(self.items))[
        slice(*(bound.constant() for bound in bounds))
        if len(bounds) > 1
        else slice(_start(bounds), None)
    ]:
        if index < len(self.items) and tx.objects.is_equal(self.at(tx, index), item):
            return index
    return None


@method((list, tuple), "index")
def sequence_index(tx: TraceContext, self: Sequence, item: Value, *bounds: Value) -> Value:
    found = find_item(tx, self, item, *bounds)
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
    return Constant(
        sum(tx.objects.is_equal(candidate, item) for candidate in self.iterate_live(tx))
    )


@method(torch.Size, "numel")
def size_numel(tx: TraceContext, self: TupleValue) -> Value:
    return tx.wrap(torch.Size(item.constant() for item in self.items).numel(), None)


def wrapped_items(tx: TraceContext, obj: Any, source: Source | None) -> list[Value]:
    """The items of a list or tuple, whatever methods a subclass has of its own."""
    base: Any = list if isinstance(obj, list) else tuple
    items = tuple(base.__iter__(obj))
    if source is None:
        return [tx.wrap(item, None) for item in items]
    if len(items) > LARGEST:
        raise GraphBreak("unsupported-value", f"a {type(obj).__name__} of {len(items)} items")
    tx.guards.add(source, Kind.TYPE, type(obj))
    tx.guards.add(source, Kind.LENGTH, len(items))
    return [LazyValue(item, SequenceItem(source, index)) for index, item in enumerate(items)]


@wraps(tuple, torch.Size)
def wrap_tuple(tx: TraceContext, obj: tuple[Any, ...], source: Source | None) -> Value:
    if (
        source is not None
        and is_literal_or_tuple(obj)
        and not (type(obj) is tuple and tx.symbols.tuple_varies(source, obj))
    ):
        tx.guards.add(source, Kind.EQUALS, obj)
        items = [tx.wrap(item, None) if isinstance(item, tuple) else Constant(item) for item in obj]
        return TupleValue(items, source, type(obj), obj)
    return wrap_item_by_item(tx, obj, source)


def wrap_item_by_item(tx: TraceContext, obj: tuple[Any, ...], source: Source | None) -> Value:
    return TupleValue(
        wrapped_items(tx, obj, source), source, type(obj), None if source is None else obj
    )


def is_namedtuple_class(cls: type) -> bool:
    """Whether a class of tuples is one of collections.namedtuple(), or derived from one: its
    instances are made of their items one by one."""
    return hasattr(cls, "_make")


def is_named_tuple(obj: Any) -> bool:
    """Whether an object is a named tuple, or a result of torch's with names, and holds nothing but
    its items."""
    cls = type(obj)
    return (
        issubclass(cls, tuple)
        and not cls.__dictoffset__
        and (is_namedtuple_class(cls) or cls.__module__ == "torch.return_types")
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
        if not tx.objects.is_equal(a, b):
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
