"""operator: the functions behind Python's operators."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from ..base import Value
from ..constant import Constant
from ..context import TraceContext
from ..operation import BINARY, COMPARE, UNARY
from ..operators import binary, compare, contains, unary
from ..registry import models


def _binary(op: str) -> None:
    @models(BINARY[op].written)
    def apply(tx: TraceContext, left: Value, right: Value) -> Value:
        return binary(tx, op, left, right)


def _compare(op: str) -> None:
    @models(COMPARE[op].function)
    def apply(tx: TraceContext, left: Value, right: Value) -> Value:
        return compare(tx, op, left, right)


def _unary(op: str) -> None:
    @models(UNARY[op].function)
    def apply(tx: TraceContext, value: Value) -> Value:
        return unary(tx, op, value)


for _op in BINARY:
    _binary(_op)
for _op in COMPARE:
    _compare(_op)
for _op in UNARY:
    _unary(_op)


# operators that are methods of values: (tx, operands) -> the result
BY_METHODS: dict[Any, Callable[..., Value]] = {
    operator.not_: lambda tx, value: Constant(not value.truth(tx)),
    operator.truth: lambda tx, value: Constant(value.truth(tx)),
    operator.is_: lambda tx, left, right: Constant(tx.objects.is_same(left, right)),
    operator.is_not: lambda tx, left, right: Constant(not tx.objects.is_same(left, right)),
    operator.contains: lambda tx, container, item: Constant(contains(tx, item, container)),
    operator.getitem: lambda tx, container, key: container.item(tx, key),
}
for _function, _model in BY_METHODS.items():
    models(_function)(_model)


@models(operator.setitem)
def setitem(tx: TraceContext, container: Value, key: Value, value: Value) -> Value:
    container.set_item(tx, key, value)
    return Constant(None)


@models(operator.delitem)
def delitem(tx: TraceContext, container: Value, key: Value) -> Value:
    container.del_item(tx, key)
    return Constant(None)
