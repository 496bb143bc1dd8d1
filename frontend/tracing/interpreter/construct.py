"""Instances made in the trace: cls(*args, **kwargs) by __new__ and __init__."""

from __future__ import annotations

import collections
import types
import typing
from typing import Any

import torch

from ....errors import GraphBreak
from ....guards.source import attribute_path
from ...values.base import Value
from ...values.containers.builtin_container import BuiltinContainer
from ...values.containers.list import ListValue
from ...values.containers.mapping import DictValue
from ...values.containers.sequence import TupleValue
from ...values.context import TraceContext
from ...values.objects.class_value import ClassValue, raw_attribute
from ...values.objects.exception import ExceptionValue
from ...values.objects.mro import MISSING, lookup
from ...values.objects.nn_module import ModuleValue
from ...values.objects.user_object import UserObject
from ...values.tensor.wrapper_subclass import construct_wrapper, is_captured_wrapper

GENERIC_NEW = typing.Generic.__dict__.get("__new__")  # in Python, and does what object.__new__ does
DICT_BASES = (dict, collections.OrderedDict, collections.defaultdict, collections.Counter)


def construct(
    tx: TraceContext, cls: ClassValue, args: list[Value], kwargs: dict[str, Value]
) -> Value:
    """type.__call__(cls, *args, **kwargs)."""
    made, init = begin_construction(tx, cls, args, kwargs)
    if init is not None:
        result = init.call(tx, args, kwargs)
        if not result.is_none():
            raise GraphBreak("exception-leaves", "TypeError: __init__() should return None")
    return made


def begin_construction(
    tx: TraceContext, cls: ClassValue, args: list[Value], kwargs: dict[str, Value]
) -> tuple[Value, Value | None]:
    """The result of __new__, and the __init__ in Python that is still to be called."""
    if is_captured_wrapper(cls.cls):
        return construct_wrapper(tx, cls, args, kwargs), None
    maker = raw = lookup(cls.cls, "__new__")[1]
    if isinstance(raw, staticmethod):
        maker = raw.__func__
    if type(maker) is types.FunctionType and maker is not GENERIC_NEW:
        source = raw_attribute(tx, cls.cls, "__new__", cls.path(tx))[1]
        made = tx.wrap(maker, source if maker is raw else attribute_path(source, "__func__")).call(
            tx, [cls, *args], kwargs
        )
        if cls.cls not in made.python_type().__mro__:  # no __subclasscheck__ is called
            return made, None
    elif not isinstance(maker, types.BuiltinFunctionType) and maker is not GENERIC_NEW:
        raise GraphBreak(
            "unknown-call", f"{cls.describe()}, whose __new__ is a {type(maker).__name__}"
        )
    else:
        if lookup(cls.cls, "__init__")[1] is object.__init__ and (
            kwargs or (args and maker is object.__new__)
        ):
            raise instantiation_break(cls.cls)
        made = new_object(tx, cls.cls, args)
    return made, python_initializer(tx, made, args, kwargs)


def new_object(tx: TraceContext, cls: type, args: list[Value]) -> Value:
    """object.__new__(cls), and that of the builtin containers and exceptions."""
    check_instances_are_captured(cls)
    if issubclass(cls, BaseException):
        return ExceptionValue(cls, list(args))
    if issubclass(cls, torch.nn.Module):
        return ModuleValue(cls)
    base: BuiltinContainer | None = None
    if issubclass(cls, dict):
        base = DictValue({}, cls=next(c for c in cls.__mro__ if c in DICT_BASES))
    elif issubclass(cls, list):
        base = ListValue([])
    elif c_base_with_new(cls) is tuple:
        if len(args) > 1:
            raise instantiation_break(cls)
        base = TupleValue([item for arg in args for item in arg.unpack(tx)])
    elif not lays_out_as_object(cls):
        raise GraphBreak("unknown-call", f"class {cls.__qualname__}")
    return UserObject(cls, base=base)


def check_instances_are_captured(cls: type) -> None:
    """Breaks for a class whose new instances are left to Python."""
    if lookup(cls, "__del__")[0] is not None:
        raise GraphBreak("unknown-call", f"class {cls.__qualname__} (it defines __del__)")
    if getattr(cls, "__abstractmethods__", None):
        raise GraphBreak("exception-leaves", f"TypeError: {cls.__name__} is abstract")
    if issubclass(cls, BaseExceptionGroup):
        raise GraphBreak("unknown-call", f"a {cls.__name__}, a group of exceptions")


def instantiation_break(cls: type) -> GraphBreak:
    return GraphBreak(
        "exception-leaves", f"TypeError: {cls.__name__}() does not take these arguments"
    )


def c_base_with_new(cls: type) -> type:
    """The nearest base class whose __new__ is in C."""
    return next(
        base
        for base in cls.__mro__
        if isinstance(vars(base).get("__new__"), types.BuiltinFunctionType)
    )


def lays_out_as_object(cls: type) -> bool:
    """Whether instances are made by object.__new__: no base in C has a layout of its own."""
    makers = [
        vars(base).get("__new__")
        for base in cls.__mro__
        if base not in (object, types.SimpleNamespace)
    ]
    return not any(isinstance(maker, types.BuiltinFunctionType) for maker in makers)


def python_initializer(
    tx: TraceContext, made: Value, args: list[Value], kwargs: dict[str, Value]
) -> Value | None:
    """type(made).__init__, bound, if it is written in Python; one in C has already been applied."""
    cls = made.python_type()
    owner, init = lookup(cls, "__init__")
    if owner in (BaseException, Exception) and kwargs:
        raise instantiation_break(cls)
    if init is MISSING or owner in (object, BaseException, Exception):
        return None
    if owner is types.SimpleNamespace and isinstance(made, UserObject) and not args:
        for name, value in kwargs.items():
            made.store(tx, name, value)
        return None
    base = getattr(made, "base", None)
    if base is not None and isinstance(init, types.WrapperDescriptorType):
        initialize_base(tx, base, args, kwargs)
        return None
    if not isinstance(init, types.FunctionType):
        if isinstance(made, ExceptionValue) and not kwargs:
            return None
        raise GraphBreak("unknown-call", f"{cls.__qualname__}.__init__")
    return tx.calls.class_method(made, cls, "__init__")


def initialize_base(
    tx: TraceContext, base: Any, args: list[Value], kwargs: dict[str, Value]
) -> None:
    """dict.__init__ or list.__init__ on the container inside an instance."""
    if isinstance(base, ListValue):
        if kwargs or len(args) > 1:
            raise instantiation_break(list)
        tx.effects.change(base)
        base.items = [item for arg in args for item in arg.unpack(tx)]
    else:
        base.method(
            tx, "__init__" if base.cls is collections.defaultdict else "update", args, kwargs
        )
