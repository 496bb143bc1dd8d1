"""The builtin functions and types."""

from __future__ import annotations

import builtins
import collections
import operator
import types
from collections.abc import Callable
from typing import Any

import torch

from ....errors import GraphBreak
from ....guards.source import AddressOf
from ..base import ObservedException, Value, check_result_type, none_if_stopped
from ..constant import Constant, can_fold, fold
from ..containers.deferred_range import DeferredRange
from ..containers.list import ListValue
from ..containers.mapping import DictValue
from ..containers.mapping_proxy import MappingProxyValue
from ..containers.sequence import TupleValue
from ..containers.set import SetValue
from ..containers.slice import SliceValue
from ..context import TraceContext
from ..deferred_literal import round_number, truncate
from ..iterators.iterator import (
    UNROLLED_LENGTHS,
    Enumerate,
    Filter,
    Map,
    Zip,
)
from ..numpy.array import ARRAYS, ArrayValue, call_numpy
from ..numpy.numpy_number import VaryingScalar
from ..objects.mro import lookup
from ..objects.user_object import UserObject
from ..operators import binary, compare
from ..registry import models
from ..tensor.calculated_numbers import takes_few_values
from ..tensor.number_arithmetic import calculate
from ..tensor.read_number import is_one_bool, read_as
from ..tensor.symbolic_number import SymbolicNumber
from ..tensor.tensor import TensorValue
from .tensor_numbers import number_of

# questions about objects


@models(len)
def builtin_len(tx: TraceContext, obj: Value) -> Value:
    return obj.length(tx)


@models(callable)
def builtin_callable(tx: TraceContext, obj: Value) -> Value:
    return Constant(lookup(obj.python_type(), "__call__")[0] is not None)


@models(type)
def builtin_type(tx: TraceContext, obj: Value, *rest: Value) -> Value:
    if rest:
        raise GraphBreak("class-made", " by type()")
    if isinstance(obj, UserObject):
        return obj.attribute(tx, "__class__")
    return tx.wrap(obj.python_type(), None)


@models(id)
def builtin_id(tx: TraceContext, obj: Value) -> Value:
    real = None if obj.source is None else tx.objects.real_object(obj)
    if obj.source is None or real is None:
        raise GraphBreak("unknown-call", f"id() of {obj.describe()} created by the frame")
    return tx.wrap(id(real), AddressOf(obj.source))


@models(hash)
def builtin_hash(tx: TraceContext, obj: Value) -> Value:
    tx.guards.process_bound = "a hash"
    return fold(tx, hash, [obj], {})


def attribute_name(name: Value) -> str:
    found = name.constant()
    if not isinstance(found, str):
        raise GraphBreak("exception-leaves", "TypeError: attribute name must be string")
    return found


@models(getattr)
def builtin_getattr(
    tx: TraceContext, obj: Value, name: Value, default: Value | None = None
) -> Value:
    """An AttributeError of the program's __getattr__ gives the default, too; for a tensor, hasattr
    decides."""
    if (
        default is not None
        and isinstance(obj, TensorValue)
        and not builtin_hasattr(tx, obj, name).truth(tx)
    ):
        return default
    try:
        return obj.attribute(tx, attribute_name(name))
    except ObservedException as error:
        if default is None or not issubclass(error.cls, AttributeError):
            raise
        return default


@models(hasattr)
def builtin_hasattr(tx: TraceContext, obj: Value, name: Value) -> Value:
    if isinstance(obj, TensorValue) and hasattr(obj.cls, attribute_name(name)):
        return Constant(hasattr(obj.fake, attribute_name(name)))
    try:
        obj.attribute(tx, attribute_name(name))
    except ObservedException as error:
        if not issubclass(error.cls, AttributeError):
            raise
        return Constant(False)
    return Constant(True)


@models(setattr)
def builtin_setattr(tx: TraceContext, obj: Value, name: Value, value: Value) -> Value:
    obj.set_attribute(tx, attribute_name(name), value)
    return Constant(None)


@models(delattr)
def builtin_delattr(tx: TraceContext, obj: Value, name: Value) -> Value:
    obj.del_attribute(tx, attribute_name(name))
    return Constant(None)


@models(vars)
def builtin_vars(tx: TraceContext, obj: Value) -> Value:
    if obj.is_constant() and not hasattr(obj.constant(), "__dict__"):
        raise tx.exceptions.new(TypeError, "vars() argument must have __dict__ attribute")
    return obj.attribute(tx, "__dict__")


# iteration


@models(iter)
def builtin_iter(tx: TraceContext, obj: Value, sentinel: Value | None = None) -> Value:
    if sentinel is None:
        cls = obj.python_type()
        if all(lookup(cls, name)[0] is None for name in ("__iter__", "__getitem__")):
            raise tx.exceptions.new(TypeError, f"'{cls.__name__}' object is not iterable")
        return obj.iterator(tx)
    raise GraphBreak("unknown-call", "iter() of a function and a sentinel")


@models(next)
def builtin_next(tx: TraceContext, iterator: Value, default: Value | None = None) -> Value:
    if default is None:
        return iterator.advance(tx)
    return none_if_stopped(lambda: iterator.advance(tx)) or default


@models(range)
def builtin_range(tx: TraceContext, *args: Value) -> Value:
    given = tuple(map(tx.look, args))
    varies = any(isinstance(arg, SymbolicNumber) for arg in given)
    ints = all(arg.python_type() is int for arg in given)
    never_raises = len(given) < 3 or (isinstance(given[2], Constant) and given[2].object != 0)
    if varies and ints and never_raises:
        varying = DeferredRange(given)
        many = tx.symbols.variation.captures >= UNROLLED_LENGTHS
        if (many and not any(map(takes_few_values, given))) or not varying.varies_in_length(tx):
            return varying
    return fold(tx, range, list(args), {})


@models(enumerate)
def builtin_enumerate(tx: TraceContext, iterable: Value, start: Value | None = None) -> Value:
    return Enumerate(
        iterable.iterator(tx),
        0 if start is None else fold(tx, operator.index, [start], {}).constant(),
    )


@models(zip)
def builtin_zip(tx: TraceContext, *iterables: Value, strict: Value | None = None) -> Value:
    return Zip([i.iterator(tx) for i in iterables], strict is not None and strict.truth(tx))


@models(map)
def builtin_map(tx: TraceContext, function: Value, *iterables: Value) -> Value:
    if not iterables:
        raise tx.exceptions.new(TypeError, "map() must have at least two arguments.")
    return Map(function, [i.iterator(tx) for i in iterables])


@models(filter)
def builtin_filter(tx: TraceContext, function: Value, iterable: Value) -> Value:
    return Filter(function, iterable.iterator(tx))


@models(reversed)
def builtin_reversed(tx: TraceContext, obj: Value) -> Value:
    return obj.reverse_iterator(tx)


@models(sorted)
def builtin_sorted(
    tx: TraceContext, iterable: Value, *, key: Value | None = None, reverse: Value | None = None
) -> Value:
    return ListValue(tx.calls.sort(iterable.list_items(tx), key, reverse))


# reductions over iterables


@models(any)
def builtin_any(tx: TraceContext, iterable: Value) -> Value:
    iterator = iterable.iterator(tx)
    while (item := iterator.next(tx)) is not None:
        if item.truth(tx):
            return Constant(True)
    return Constant(False)


@models(all)
def builtin_all(tx: TraceContext, iterable: Value) -> Value:
    iterator = iterable.iterator(tx)
    while (item := iterator.next(tx)) is not None:
        if not item.truth(tx):
            return Constant(False)
    return Constant(True)


@models(sum)
def builtin_sum(tx: TraceContext, iterable: Value, start: Value | None = None) -> Value:
    total: Value = Constant(0) if start is None else start
    if issubclass(total.python_type(), str | bytes | bytearray):
        raise GraphBreak("exception-leaves", "TypeError: sum() can't sum strings")
    for item in iterable.unpack(tx):
        total = binary(tx, "+", total, item)
    return total


def _extreme(
    tx: TraceContext, op: str, args: tuple[Value, ...], key: Value | None, default: Value | None
) -> Value:
    """max() where `op` is ">", min() where it is "<"."""
    items = args[0].unpack(tx) if len(args) == 1 else list(args)
    if not items:
        if default is None:
            # raises what this Python says
            return fold(tx, max if op == ">" else min, [TupleValue([])], {})
        return default
    by_value = key is None or key.is_none()
    best = items[0]
    best_key = best if key is None or by_value else key.call(tx, [best], {})
    for item in items[1:]:
        item_key = item if key is None or by_value else key.call(tx, [item], {})
        if by_value and (number := extreme_of_values(tx, op, best, item)) is not None:
            best = best_key = number
        elif compare(tx, op, item_key, best_key).truth(tx):
            best, best_key = item, item_key
    return best


def extreme_of_values(tx: TraceContext, op: str, one: Value, other: Value) -> Value | None:
    """The larger or smaller one of two floats, one of which varies, or of two ints that both vary,
    or one of which only values tell; None for others."""
    varying = [item for item in (one, other) if isinstance(item, SymbolicNumber)]
    types = {one.python_type(), other.python_type()}
    several = len(varying) > 1 or any(item.depends_on_values() for item in varying)
    if not varying or not (types == {float} or types == {int} and several):
        return None
    return calculate(tx, torch.sym_max if op == ">" else torch.sym_min, one, other)


@models(max)
def builtin_max(
    tx: TraceContext, *args: Value, key: Value | None = None, default: Value | None = None
) -> Value:
    if not args:
        raise tx.exceptions.new(TypeError, "max expected at least 1 argument, got 0")
    return _extreme(tx, ">", args, key, default)


@models(min)
def builtin_min(
    tx: TraceContext, *args: Value, key: Value | None = None, default: Value | None = None
) -> Value:
    if not args:
        raise tx.exceptions.new(TypeError, "min expected at least 1 argument, got 0")
    return _extreme(tx, "<", args, key, default)


# numbers


def _number(cls: type, name: str) -> Callable[..., Value]:
    """The model of int, float or complex. `name`: the special method that it calls."""

    def convert(tx: TraceContext, *args: Value) -> Value:
        """Converts a tensor, an array, an object with that special method, a number that varies, or
        a literal."""
        if args and isinstance(args[0], TensorValue):
            return number_of(tx, cls, args[0])
        if args and isinstance(args[0], ArrayValue) and not args[0].fake.dim():
            return number_of(tx, cls, args[0].tensor)
        if args and isinstance(args[0], UserObject):
            found = args[0].special_method(tx, name)
            if found is not None:
                return check_result_type(found.call(tx, [], {}), cls, name)
        if len(args) == 1 and isinstance(args[0], SymbolicNumber | VaryingScalar):
            number = args[0].number if isinstance(args[0], VaryingScalar) else args[0]
            return (
                (truncate(tx, number) if cls is int else None)
                or calculate(tx, cls, number)
                or number
            )
        return fold(tx, cls, list(args), {})

    return convert


for _cls, _name in ((int, "__int__"), (float, "__float__"), (complex, "__complex__")):
    models(_cls)(_number(_cls, _name))


@models(bool)
def builtin_bool(tx: TraceContext, obj: Value | None = None) -> Value:
    tensor = obj.tensor if isinstance(obj, ArrayValue) else obj
    if isinstance(tensor, TensorValue) and is_one_bool(tx, tensor):
        return read_as(tx, f"`bool()` of {tensor.describe()}", tensor)
    return Constant(False if obj is None else obj.truth(tx))


@models(abs)
def builtin_abs(tx: TraceContext, obj: Value) -> Value:
    if isinstance(obj, TensorValue):
        return tx.graph.function(abs, obj)
    if isinstance(obj, ARRAYS):
        return call_numpy(tx, "absolute", abs, [obj], {})
    if isinstance(obj, UserObject):
        found = obj.special_method(tx, "__abs__")
        if found is None:
            raise tx.exceptions.new(TypeError, f"bad operand type for abs(): '{obj.cls.__name__}'")
        return found.call(tx, [], {})
    if isinstance(obj, SymbolicNumber):
        return calculate(tx, abs, obj) or obj
    return fold(tx, abs, [obj], {})


@models(pow)
def builtin_pow(
    tx: TraceContext, base: Value, exponent: Value, modulus: Value | None = None
) -> Value:
    if modulus is None:
        return binary(tx, "**", base, exponent)
    return fold(tx, pow, [base, exponent, modulus], {})


@models(divmod)
def builtin_divmod(tx: TraceContext, left: Value, right: Value) -> Value:
    if TensorValue in (type(left), type(right)):
        raise GraphBreak("unknown-call", "divmod() of a tensor, which has none")
    if (
        can_fold([left, right], {})
        and not isinstance(left, SymbolicNumber)
        and not isinstance(right, SymbolicNumber)
    ):
        return fold(tx, divmod, [left, right], {})
    for receiver, name, other in ((left, "__divmod__", right), (right, "__rdivmod__", left)):
        found = receiver.special_method(tx, name) if isinstance(receiver, UserObject) else None
        if found is not None:
            return found.call(tx, [other], {})
    return TupleValue([binary(tx, "//", left, right), binary(tx, "%", left, right)])


@models(round)
def builtin_round(tx: TraceContext, obj: Value, digits: Value | None = None) -> Value:
    args = [obj] if digits is None else [obj, digits]
    found = obj.special_method(tx, "__round__") if isinstance(obj, UserObject) else None
    if found is not None:
        return found.call(tx, args[1:], {})
    return round_number(tx, *args)


# containers


@models(list)
def builtin_list(tx: TraceContext, items: Value | None = None) -> Value:
    return ListValue([] if items is None else list(items.list_items(tx)))


@models(tuple)
def builtin_tuple(tx: TraceContext, items: Value | None = None) -> Value:
    if isinstance(items, TupleValue) and items.cls is tuple:
        return items
    return TupleValue([] if items is None else list(items.list_items(tx)))


@models(dict)
def builtin_dict(tx: TraceContext, *others: Value, **named: Value) -> Value:
    made = DictValue({})
    made.method(tx, "update", list(others), named)
    return made


@models(dict.fromkeys)
def builtin_dict_fromkeys(tx: TraceContext, keys: Value, value: Value | None = None) -> Value:
    return tx.make.dict_of([(key, value or Constant(None)) for key in keys.unpack(tx)])


@models(collections.OrderedDict.fromkeys)
def ordered_dict_fromkeys(tx: TraceContext, iterable: Value, value: Value | None = None) -> Value:
    made = DictValue({}, cls=collections.OrderedDict)
    for key in iterable.unpack(tx):
        made.put(tx, key, value or Constant(None))
    return made


def _members(tx: TraceContext, items: Value | None) -> dict[Any, Value]:
    members: dict[Any, Value] = {}
    for item in [] if items is None else items.unpack(tx):
        members.setdefault(item.key(tx), item)
    return members


@models(set)
def builtin_set(tx: TraceContext, items: Value | None = None) -> Value:
    if isinstance(items, SetValue):
        return SetValue(dict(items.members), None, set, set(items.order))
    return _made_of(set, items, _members(tx, items))


@models(frozenset)
def builtin_frozenset(tx: TraceContext, items: Value | None = None) -> Value:
    if isinstance(items, SetValue):
        if items.cls is frozenset:
            return items
        return SetValue(dict(items.members), None, frozenset, frozenset(items.order))
    return _made_of(frozenset, items, _members(tx, items))


def _made_of(cls: type, items: Value | None, members: dict[Any, Value]) -> Value:
    """Returns a new set. One that is made of a dictionary has another order."""
    return SetValue(
        members,
        None,
        cls,
        cls(members) if isinstance(items, DictValue) and items.is_plain() else None,
    )


@models(types.MappingProxyType)
def mapping_proxy(tx: TraceContext, mapping: Value) -> Value:
    if not isinstance(mapping, DictValue):
        raise GraphBreak("unknown-call", f"mappingproxy() of {mapping.describe()}")
    return MappingProxyValue(mapping)


@models(slice)
def builtin_slice(tx: TraceContext, *parts: Value) -> Value:
    none = Constant(None)
    if not 1 <= len(parts) <= 3:
        raise GraphBreak("exception-leaves", "TypeError: slice expected 1 to 3 arguments")
    return SliceValue({1: [none, *parts, none], 2: [*parts, none], 3: list(parts)}[len(parts)])


# effects on the world


@models(print)
def builtin_print(tx: TraceContext, *args: Value, **kwargs: Value) -> Value:
    raise GraphBreak("output", "print()")


@models(input, open, builtins.__import__)
def builtin_with_side_effects(tx: TraceContext, *args: Value, **kwargs: Value) -> Value:
    raise GraphBreak("output", "a call that reads or writes files, streams or processes")
