"""collections.deque, made in the trace."""
from __future__ import annotations

import collections
from typing import TYPE_CHECKING

from ...guards.source import Source
from .base import Value
from .constant import Constant
from .registry import method
from .sequence import (
    ListValue,
    list_clear,
    list_extend,
    list_insert,
    list_pop,
    list_remove,
    list_reverse,
    sequence_contains,
    sequence_count,
    sequence_index,
    sequence_iter,
    sequence_len,
)

if TYPE_CHECKING:
    from .context import TraceContext


class DequeValue(ListValue):
    """A deque; it drops items at the other end once it holds `maxlen`."""

    __slots__ = ("maxlen",)
    default_class = collections.deque

    def __init__(self, items: list[Value], maxlen: int | None, source: Source | None = None) -> None:
        super().__init__(items, source)
        self.maxlen = maxlen

    def attribute(self, tx: TraceContext, name: str) -> Value:
        return Constant(self.maxlen) if name == "maxlen" else super().attribute(tx, name)

    def trim(self, *, left: bool) -> None:
        if self.maxlen is not None and len(self.items) > self.maxlen:
            self.items = self.items[-self.maxlen :] if left and self.maxlen else self.items[: self.maxlen]


for _name, _handler in {
    "clear": list_clear, "insert": list_insert, "remove": list_remove, "reverse": list_reverse, "__contains__": sequence_contains,
    "count": sequence_count, "index": sequence_index, "__iter__": sequence_iter, "__len__": sequence_len,
}.items():  # fmt: skip
    method(collections.deque, _name)(_handler)


@method(collections.deque, "append")
def append(tx: TraceContext, self: DequeValue, item: Value) -> Value:
    tx.effects.change(self)
    self.items.append(item)
    self.trim(left=True)
    return Constant(None)


@method(collections.deque, "appendleft")
def appendleft(tx: TraceContext, self: DequeValue, item: Value) -> Value:
    tx.effects.change(self)
    self.items.insert(0, item)
    self.trim(left=False)
    return Constant(None)


@method(collections.deque, "extend")
def extend(tx: TraceContext, self: DequeValue, items: Value) -> Value:
    list_extend(tx, self, items)
    self.trim(left=True)
    return Constant(None)


@method(collections.deque, "extendleft")
def extendleft(tx: TraceContext, self: DequeValue, items: Value) -> Value:
    for item in tx.unpack(items):
        appendleft(tx, self, item)
    return Constant(None)


@method(collections.deque, "pop")
def pop(tx: TraceContext, self: DequeValue) -> Value:
    if not self.items:
        raise tx.throw(IndexError, "pop from an empty deque")
    return list_pop(tx, self)


@method(collections.deque, "popleft")
def popleft(tx: TraceContext, self: DequeValue) -> Value:
    if not self.items:
        raise tx.throw(IndexError, "pop from an empty deque")
    return list_pop(tx, self, Constant(0))


@method(collections.deque, "rotate")
def rotate(tx: TraceContext, self: DequeValue, n: Value | None = None) -> Value:
    tx.effects.change(self)
    steps = (1 if n is None else n.constant()) % max(len(self.items), 1)
    self.items = self.items[len(self.items) - steps :] + self.items[: len(self.items) - steps]
    return Constant(None)


@method(collections.deque, "copy")
def copy(tx: TraceContext, self: DequeValue) -> Value:
    return DequeValue(list(self.items), self.maxlen)
