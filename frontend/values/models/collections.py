"""collections: OrderedDict, defaultdict, Counter, deque."""

from __future__ import annotations

import collections

from ..base import Value
from ..constant import Constant, call_now
from ..containers.deque import DequeValue
from ..containers.mapping import DictValue
from ..context import TraceContext
from ..operators import binary
from ..registry import models


@models(collections.OrderedDict)
def ordered_dict(tx: TraceContext, *others: Value, **named: Value) -> Value:
    made = DictValue({}, cls=collections.OrderedDict)
    made.method(tx, "update", list(others), named)
    return made


@models(collections.defaultdict)
def default_dict(
    tx: TraceContext, factory: Value | None = None, *others: Value, **named: Value
) -> Value:
    made = DictValue({}, cls=collections.defaultdict, default_factory=Constant(None))
    made.method(tx, "__init__", [factory or Constant(None), *others], named)
    return made


@models(collections.deque)
def deque(tx: TraceContext, items: Value | None = None, maxlen: Value | None = None) -> Value:
    given = [] if items is None else items.unpack(tx)
    most = None if maxlen is None else maxlen.constant()
    return DequeValue(list(call_now(tx, collections.deque, given, most)), most)


@models(collections.Counter)
def counter(tx: TraceContext, *items: Value, **named: Value) -> Value:
    made = DictValue({}, cls=collections.Counter)
    made.method(tx, "update", list(items), named)
    return made


# what Counter.update calls, in C
@models(collections._count_elements)  # type: ignore[attr-defined]
def count_elements(tx: TraceContext, mapping: Value, iterable: Value) -> Value:
    for item in iterable.unpack(tx):
        old = mapping.method(tx, "get", [item, Constant(0)], {})
        mapping.set_item(tx, item, binary(tx, "+", old, Constant(1)))
    return Constant(None)
