"""Calls: inlines functions, makes instances, and finds methods of a class past the instance."""

from __future__ import annotations

import collections
import types
from collections.abc import Callable
from typing import Any

from ....errors import GraphBreak
from ...pycode.call_completion import AS_IS, CallCompletion
from ...pycode.passthrough import PassthroughFrame
from ...values.base import Value
from ...values.constant import Constant
from ...values.containers.builtin_container import BuiltinContainer
from ...values.functions.function import FunctionValue
from ...values.functions.method import MethodValue
from ...values.objects.class_value import (
    ClassValue,
    bind,
    raw_attribute,
    stored_in_class,
    type_path,
)
from ...values.objects.exception import ExceptionValue
from ...values.objects.mro import MISSING
from ...values.objects.nn_module import ModuleValue
from ...values.objects.user_object import UserObject
from ...values.registry import accepts, method_of
from ...values.tensor.tensor_subclass import TensorObject, call_method_in_c
from ..repeats.repeated_calls import RepeatedCalls
from ..trace import Trace
from .construct import construct, new_object
from .inline import inline
from .sorting import sort_values


class Calls:
    """The part of a trace that interprets calls (values/context.CallRules)."""

    def __init__(self, tx: Trace) -> None:
        self._tx = tx
        self.repeats = RepeatedCalls(tx)

    def inline(
        self,
        function: Value,
        args: list[Value],
        kwargs: dict[str, Value],
        passthroughs: tuple[PassthroughFrame, ...] | None = None,
        completion: CallCompletion = AS_IS,
    ) -> Value:
        """Interprets a call of a Python function. `passthroughs`: the functions between it and the
        innermost frame, whose instruction is this call; None where another call is.
        `completion`: what the instruction does with the result, which is left to the caller
        here."""
        assert isinstance(function, FunctionValue)
        return inline(self._tx, function, args, kwargs, passthroughs, completion)

    def of_module(
        self,
        module: ModuleValue,
        args: list[Value],
        kwargs: dict[str, Value],
        interpret: Callable[[], Value],
    ) -> Value:
        """A call of a module: interpreted, or repeated from that of an equal module."""
        return self.repeats.call(module, args, kwargs, interpret)

    def release_objects(self) -> None:
        """Drops the program's objects."""
        self.repeats.release_objects()

    def construct(self, cls: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """Makes an instance, by __new__ and __init__."""
        assert isinstance(cls, ClassValue)
        return construct(self._tx, cls, args, kwargs)

    def new_object(self, cls: type, args: list[Value]) -> Value:
        """Makes an instance, without __init__."""
        return new_object(self._tx, cls, args)

    def sort(self, items: list[Value], key: Value | None, reverse: Value | None) -> list[Value]:
        """sorted(items, key=key, reverse=reverse)."""
        return sort_values(self._tx, items, key, reverse)

    def class_method(self, receiver: Value, cls: type, name: str) -> Value:
        """The function `name` of a class, bound to a receiver."""
        raw, source = raw_attribute(self._tx, cls, name, type_path(receiver))
        return MethodValue(receiver, self._tx.wrap(raw, source))

    def class_attribute(self, receiver: Value, cls: type, name: str) -> Value:
        """An attribute that only the class of a named tuple has, bound to the tuple."""
        tx = self._tx
        path = type_path(receiver)
        stored = stored_in_class(tx, cls, name, path)
        if stored is not MISSING:
            return stored
        raw, source = raw_attribute(tx, cls, name, path)
        if raw is MISSING:
            raise tx.exceptions.no_attribute(cls.__name__, name)
        if isinstance(raw, types.MethodDescriptorType | types.WrapperDescriptorType):
            raise GraphBreak("unknown-call", f"{cls.__name__}.{name}")
        return bind(tx, raw, receiver, ClassValue(cls, path), source)

    def builtin_method(
        self, receiver: Value, descriptor: Any, args: list[Value], kwargs: dict[str, Value]
    ) -> Value:
        """A method of a C class called through the class: `dict.get(d, k)`, `object.__setattr__(o,
        n, v)`, `torch.Tensor.add(a, b)`."""
        owner, name = descriptor.__objclass__, descriptor.__name__
        if isinstance(receiver, TensorObject) and owner is not object:
            return call_method_in_c(self._tx, descriptor, name, [receiver, *args], kwargs)
        if not isinstance(receiver, UserObject):
            return self._method_of_owner(receiver, owner, name, args, kwargs)
        if owner is object or issubclass(owner, BaseException):
            return self._method_of_object(receiver, name, args)
        if receiver.base is not None:
            return self._method_of_owner(receiver.base, owner, name, args, kwargs)
        raise GraphBreak("unknown-call", f"{owner.__name__}.{name}")

    def _method_of_owner(
        self, receiver: Value, owner: type, name: str, args: list[Value], kwargs: dict[str, Value]
    ) -> Value:
        """The method of the class itself, whatever the receiver's own class defines under the
        name."""
        if (
            owner is dict
            and receiver.python_type() is collections.OrderedDict
            and name in vars(collections.OrderedDict)
        ):
            raise GraphBreak(
                "unknown-call", f"dict.{name}() of an OrderedDict, which bypasses its order"
            )
        if isinstance(receiver, ClassValue) and name not in vars(receiver.cls):
            raise GraphBreak("unknown-call", f"{owner.__name__}.{name}")  # would find this again
        handler = method_of(owner, name) if isinstance(receiver, BuiltinContainer) else None
        if handler is not None and accepts(handler, len(args) + 2, kwargs):
            return handler(self._tx, receiver, *args, **kwargs)
        return receiver.method(self._tx, name, args, kwargs)

    def _method_of_object(self, receiver: UserObject, name: str, args: list[Value]) -> Value:
        """Calls a method of `object` that a class does not override."""
        tx = self._tx
        if name == "__setattr__":
            receiver.generic_set_attribute(tx, args[0].constant(), args[1])
            return Constant(None)
        if name == "__getattribute__":
            return receiver.generic_attribute(tx, args[0].constant())
        if name == "__delattr__":
            receiver.generic_del_attribute(tx, args[0].constant())
            return Constant(None)
        if name == "__init__":
            return self._object_init(receiver, args)
        if name == "__str__":
            if isinstance(receiver, ExceptionValue):
                return receiver.text(tx)
            return receiver.method(tx, "__repr__", [], {})
        if isinstance(receiver, ExceptionValue) and name in (
            "__repr__",
            "with_traceback",
        ):
            return self._method_of_exception(receiver, name, args)
        if name == "__format__" and args[0].is_constant() and args[0].constant() == "":
            return receiver.method(tx, "__str__", [], {})
        raise GraphBreak("unknown-call", f"object.{name}")

    def _object_init(self, receiver: UserObject, args: list[Value]) -> Value:
        """object.__init__; that of an exception keeps the arguments."""
        cls: Any = receiver.cls
        if args and not isinstance(receiver, ExceptionValue):  # as object.__init__ asks
            if cls.__init__ is not object.__init__ or cls.__new__ is object.__new__:
                raise GraphBreak(
                    "exception-leaves", "TypeError: object.__init__() takes exactly one argument"
                )
        if isinstance(receiver, ExceptionValue):
            if receiver.source is not None:
                raise GraphBreak(
                    "unknown-call",
                    f"{receiver.cls.__name__}.__init__ of an exception that existed before",
                )
            self._tx.effects.change(receiver)
            receiver.args = args
        return Constant(None)

    def _method_of_exception(self, receiver: ExceptionValue, name: str, args: list[Value]) -> Value:
        if name == "__repr__":
            return receiver.representation(self._tx)
        if receiver.source is not None or not args[0].is_none():  # a new one has no traceback
            raise GraphBreak("unknown-call", "with_traceback()")
        return receiver
