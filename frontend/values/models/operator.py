"""operator: the functions behind Python's operators."""

from __future__ import annotations

import operator

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


@models(operator.not_)
def not_(tx: TraceContext, value: Value) -> Value:
    return Constant(not value.truth(tx))


@models(operator.truth)
def truth(tx: TraceContext, value: Value) -> Value:
    return Constant(value.truth(tx))


@models(operator.is_)
def is_(tx: TraceContext, left: Value, right: Value) -> Value:
    return Constant(tx.objects.is_same(left, right))


@models(operator.is_not)
def is_not(tx: TraceContext, left: Value, right: Value) -> Value:
    return Constant(not tx.objects.is_same(left, right))


@models(operator.contains)
def operator_contains(tx: TraceContext, container: Value, item: Value) -> Value:
    return Constant(contains(tx, item, container))


@models(operator.getitem)
def getitem(tx: TraceContext, container: Value, key: Value) -> Value:
    return container.item(tx, key)


@models(operator.setitem)
def setitem(tx: TraceContext, container: Value, key: Value, value: Value) -> Value:
    container.set_item(tx, key, value)
    return Constant(None)


@models(operator.delitem)
def delitem(tx: TraceContext, container: Value, key: Value) -> Value:
    container.del_item(tx, key)
    return Constant(None)
