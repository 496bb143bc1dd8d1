"""`|`, `|=` and update of dictionaries: which class the result has, and whose method sets the
items, as in C."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from typing import TYPE_CHECKING

from ....errors import GraphBreak
from ..base import Value
from ..constant import Constant
from ..objects.user_object import UserObject
from ..registry import method
from .mapping import DictValue

if TYPE_CHECKING:
    from ..context import TraceContext


def is_dict(value: Value) -> bool:
    return isinstance(value.base if isinstance(value, UserObject) else value, DictValue)


def whole(value: DictValue) -> Value:
    """The dictionary, or the object that contains it."""
    return value.outer or value


def take_over(tx: TraceContext, made: DictValue, other: Value) -> DictValue:
    for key, value in other.mapping_pairs(tx):
        made.put(tx, key, value)
    return made


def merge_dicts(tx: TraceContext, left: Value, right: Value) -> Value:
    """dict.__or__: returns a dict, whatever the classes of the operands."""
    if not (is_dict(left) and is_dict(right)):
        return Constant(NotImplemented)
    inner = left.base if isinstance(left, UserObject) else left
    assert isinstance(inner, DictValue)
    return take_over(tx, DictValue(dict(inner.whole(tx))), right)


@method(dict, "__or__")
def dict_or(tx: TraceContext, self: DictValue, other: Value) -> Value:
    return merge_dicts(tx, whole(self), other)


@method(dict, "__ror__")
def dict_ror(tx: TraceContext, self: DictValue, other: Value) -> Value:
    return merge_dicts(tx, other, whole(self))


@method(dict, "__ior__")
def dict_ior(tx: TraceContext, self: DictValue, other: Value) -> Value:
    take_over(tx, self, other)
    return whole(self)


def set_items(tx: TraceContext, into: Value, other: Value) -> Value:
    """Sets each item by the method of the program's class, as OrderedDict's methods do."""
    for key, value in other.mapping_pairs(tx):
        into.set_item(tx, key, value)
    return into


@method(OrderedDict, "update", "__init__")
def ordered_update(tx: TraceContext, self: DictValue, *others: Value, **named: Value) -> Value:
    if len(others) > 1:
        raise GraphBreak("exception-leaves", "TypeError: of more than one mapping")
    for other in others:
        set_items(tx, whole(self), other)
    for name, value in named.items():
        whole(self).set_item(tx, Constant(name), value)
    return Constant(None)


def merged_in_order(tx: TraceContext, left: Value, right: Value, cls: type) -> Value:
    if not (is_dict(left) and is_dict(right)):
        return Constant(NotImplemented)
    return set_items(tx, tx.wrap(cls, None).call(tx, [left], {}), right)


@method(OrderedDict, "__or__")
def ordered_or(tx: TraceContext, self: DictValue, other: Value) -> Value:
    return merged_in_order(tx, whole(self), other, whole(self).python_type())


@method(OrderedDict, "__ror__")
def ordered_ror(tx: TraceContext, self: DictValue, other: Value) -> Value:
    return merged_in_order(tx, other, whole(self), whole(self).python_type())


@method(OrderedDict, "__ior__")
def ordered_ior(tx: TraceContext, self: DictValue, other: Value) -> Value:
    return set_items(tx, whole(self), other)


@method(OrderedDict, "copy")
def ordered_copy(tx: TraceContext, self: DictValue) -> Value:
    """For a subclass, each item is read and set by the methods of that class."""
    if self.outer is None:
        return DictValue(dict(self.whole(tx)), cls=OrderedDict)
    made = tx.wrap(self.outer.python_type(), None).call(tx, [], {})
    for key, _ in self.pairs(tx):
        made.set_item(tx, key, self.outer.item(tx, key))
    return made


@method(defaultdict, "copy")
def defaultdict_copy(tx: TraceContext, self: DictValue) -> Value:
    return tx.wrap(whole(self).python_type(), None).call(
        tx, [self.default_factory or Constant(None), whole(self)], {}
    )


def merged_with_factory(tx: TraceContext, self: DictValue, left: Value, right: Value) -> Value:
    if not (is_dict(left) and is_dict(right)):
        return Constant(NotImplemented)
    made = tx.wrap(whole(self).python_type(), None).call(
        tx, [self.default_factory or Constant(None), left], {}
    )
    inner = made.base if isinstance(made, UserObject) else made
    if not isinstance(inner, DictValue):
        raise self.unsupported("|")
    take_over(tx, inner, right)
    return made


@method(defaultdict, "__or__")
def defaultdict_or(tx: TraceContext, self: DictValue, other: Value) -> Value:
    return merged_with_factory(tx, self, whole(self), other)


@method(defaultdict, "__ror__")
def defaultdict_ror(tx: TraceContext, self: DictValue, other: Value) -> Value:
    return merged_with_factory(tx, self, other, whole(self))
