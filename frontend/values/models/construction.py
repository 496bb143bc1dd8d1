"""What makes objects and classes: object(), __new__ of the builtin types, bound methods."""

from __future__ import annotations

import builtins
import enum
import types

from ....errors import GraphBreak
from ..base import Value
from ..containers.sequence import TupleValue, is_namedtuple_class
from ..context import TraceContext
from ..functions.function import FunctionValue
from ..functions.method import MethodValue
from ..objects.class_value import ClassValue
from ..objects.user_object import UserObject
from ..registry import method, model_of, models


@models(object)
def builtin_object(tx: TraceContext) -> Value:
    return UserObject(object)


@models(object.__new__)
def builtin_new(tx: TraceContext, cls: Value, *args: Value, **kwargs: Value) -> Value:
    made = cls.constant()
    if (args or kwargs) and (
        made.__new__ is not object.__new__ or made.__init__ is object.__init__
    ):
        raise GraphBreak(
            "exception-leaves", "TypeError: object.__new__() takes exactly one argument"
        )
    return tx.calls.new_object(made, list(args))


@models(tuple.__new__)
def builtin_tuple_new(tx: TraceContext, cls: Value, items: Value | None = None) -> Value:
    made = cls.constant()
    if made is not tuple and (made.__dictoffset__ or not is_namedtuple_class(made)):
        return tx.calls.new_object(made, [] if items is None else [items])
    return TupleValue([] if items is None else list(items.unpack(tx)), None, made)


@models(type.__call__)
def builtin_type_call(tx: TraceContext, cls: Value, *args: Value, **kwargs: Value) -> Value:
    """type.__call__, as a metaclass's own __call__ uses it."""
    if (
        not isinstance(cls, ClassValue)
        or isinstance(cls.cls, enum.EnumMeta)
        or model_of(cls.cls) is not None
    ):
        raise GraphBreak("unknown-call", f"type.__call__() of {cls.describe()}")
    return tx.calls.construct(cls, list(args), kwargs)


@models(dict.__new__, list.__new__)
def builtin_dict_new(tx: TraceContext, cls: Value, *args: Value, **kwargs: Value) -> Value:
    return tx.calls.new_object(cls.constant(), [])


@models(BaseException.__new__, Exception.__new__)
def builtin_exception_new(tx: TraceContext, cls: Value, *args: Value, **kwargs: Value) -> Value:
    return tx.calls.new_object(cls.constant(), list(args))


@models(builtins.__build_class__)
def builtin_build_class(tx: TraceContext, *args: Value, **kwargs: Value) -> Value:
    raise GraphBreak("class-made", " by a class statement")


@models(property)
def builtin_property(tx: TraceContext, *args: Value) -> Value:
    raise GraphBreak("unsupported-bytecode", "a property made inside")


@models(types.MethodType)
def builtin_method_type(tx: TraceContext, function: Value, receiver: Value) -> Value:
    return MethodValue(receiver, function)


@models(types.FunctionType.__get__)
def function_get(
    tx: TraceContext, function: Value, receiver: Value, cls: Value | None = None
) -> Value:
    if receiver.is_none():
        return function
    return MethodValue(receiver, function)


@method(types.FunctionType, "__get__")
def function_get_method(
    tx: TraceContext, self: FunctionValue, receiver: Value, cls: Value | None = None
) -> Value:
    return function_get(tx, self, receiver, cls)
