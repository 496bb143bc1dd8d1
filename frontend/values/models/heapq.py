"""heapq's functions in C, step by step as C does them: comparisons may be the program's, and see the heap as it is meanwhile."""
from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import TYPE_CHECKING

from ....errors import GraphBreak
from ..base import Value
from ..constant import Constant
from ..operate import compare
from ..registry import models
from ..sequence import ListValue
from ..user_object import UserObject

if TYPE_CHECKING:
    from ..context import TraceContext

Before = Callable[["TraceContext", Value, Value], bool]  # whether an item is to be nearer to the top than another
LARGEST_IN_ORDER = 2500  # items; longer lists are made heaps in an order that suits caches


def smaller(tx: TraceContext, left: Value, right: Value) -> bool:
    return compare(tx, "<", left, right).truth(tx)


def larger(tx: TraceContext, left: Value, right: Value) -> bool:
    return compare(tx, "<", right, left).truth(tx)


def as_heap(tx: TraceContext, heap: Value) -> ListValue:
    inner = heap.base if isinstance(heap, UserObject) else heap
    if not isinstance(inner, ListValue) or not issubclass(inner.cls, list):
        raise GraphBreak("exception-leaves", "TypeError: a heap must be a list")
    tx.effects.change(inner)
    return inner


def swap(heap: ListValue, one: int, other: int) -> None:
    heap.items[one], heap.items[other] = heap.items[other], heap.items[one]


def asked(tx: TraceContext, heap: ListValue, before: Before, one: int, other: int) -> bool:
    """Whether item `one` is to be nearer to the top than item `other`."""
    size = len(heap.items)
    answer = before(tx, heap.at(tx, one), heap.at(tx, other))
    if len(heap.items) != size:
        raise tx.throw(RuntimeError, "list changed size during iteration")
    tx.effects.change(heap)
    return answer


def rise(tx: TraceContext, heap: ListValue, top: int, at: int, before: Before) -> None:
    """C's siftdown."""
    while at > top:
        parent = (at - 1) >> 1
        if not asked(tx, heap, before, at, parent):
            return
        swap(heap, at, parent)
        at = parent


def sink(tx: TraceContext, heap: ListValue, at: int, before: Before) -> None:
    """C's siftup: down to a leaf, then up to its place."""
    top, end = at, len(heap.items)
    while at < end >> 1:
        child = 2 * at + 1
        if child + 1 < end and not asked(tx, heap, before, child, child + 1):
            child += 1
        swap(heap, at, child)
        at = child
    rise(tx, heap, top, at, before)


def make(tx: TraceContext, heap: Value, before: Before) -> Value:
    inner = as_heap(tx, heap)
    if len(inner.items) > LARGEST_IN_ORDER:
        raise GraphBreak("unknown-call", f"heapify() of {len(inner.items)} items")
    for index in reversed(range(len(inner.items) // 2)):
        sink(tx, inner, index, before)
    return Constant(None)


def pop(tx: TraceContext, heap: Value, before: Before) -> Value:
    inner = as_heap(tx, heap)
    if not inner.items:
        raise tx.throw(IndexError, "index out of range")
    last = inner.at(tx, len(inner.items) - 1)
    inner.items.pop()
    if not inner.items:
        return last
    return exchange(tx, inner, last, before)


def replace(tx: TraceContext, heap: Value, item: Value, before: Before) -> Value:
    inner = as_heap(tx, heap)
    if not inner.items:
        raise tx.throw(IndexError, "index out of range")
    return exchange(tx, inner, item, before)


def exchange(tx: TraceContext, heap: ListValue, item: Value, before: Before) -> Value:
    """Puts an item where the top is, lets it sink, and gives the top."""
    first, heap.items[0] = heap.at(tx, 0), item
    sink(tx, heap, 0, before)
    return first


@models(heapq.heapify)
def heapify(tx: TraceContext, heap: Value) -> Value:
    return make(tx, heap, smaller)


@models(heapq._heapify_max)  # type: ignore[attr-defined]
def heapify_max(tx: TraceContext, heap: Value) -> Value:
    return make(tx, heap, larger)


@models(heapq.heappop)
def heappop(tx: TraceContext, heap: Value) -> Value:
    return pop(tx, heap, smaller)


@models(heapq._heappop_max)  # type: ignore[attr-defined]
def heappop_max(tx: TraceContext, heap: Value) -> Value:
    return pop(tx, heap, larger)


@models(heapq.heapreplace)
def heapreplace(tx: TraceContext, heap: Value, item: Value) -> Value:
    return replace(tx, heap, item, smaller)


@models(heapq._heapreplace_max)  # type: ignore[attr-defined]
def heapreplace_max(tx: TraceContext, heap: Value, item: Value) -> Value:
    return replace(tx, heap, item, larger)


@models(heapq.heappush)
def heappush(tx: TraceContext, heap: Value, item: Value) -> Value:
    inner = as_heap(tx, heap)
    inner.items.append(item)
    rise(tx, inner, 0, len(inner.items) - 1, smaller)
    return Constant(None)


@models(heapq.heappushpop)
def heappushpop(tx: TraceContext, heap: Value, item: Value) -> Value:
    inner = as_heap(tx, heap)
    if not inner.items or not smaller(tx, inner.at(tx, 0), item):
        return item
    return replace(tx, heap, item, smaller)
