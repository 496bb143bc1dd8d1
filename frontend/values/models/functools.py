"""functools."""

from __future__ import annotations

import functools
import types

from ....errors import GraphBreak
from ..base import Value
from ..context import TraceContext
from ..functions.builtin_function import BuiltinValue
from ..functions.function import FunctionValue
from ..functions.method import MethodValue
from ..functions.partial import PartialValue
from ..objects.mro import lookup
from ..registry import models


@models(functools.partial)
def partial(tx: TraceContext, function: Value, *args: Value, **kwargs: Value) -> Value:
    if lookup(function.python_type(), "__call__")[0] is None:
        raise tx.exceptions.new(TypeError, "the first argument must be callable")
    # one of both is made
    if (
        isinstance(function, PartialValue)
        and not function.attributes
        and not has_attributes(tx, function)
    ):
        return PartialValue(
            function.function, [*function.args, *args], {**function.kwargs, **kwargs}
        )
    return PartialValue(function, list(args), kwargs)


def has_attributes(tx: TraceContext, function: PartialValue) -> bool:
    """Whether an existing partial has a non-empty dictionary of its own."""
    return function.source is not None and bool(
        getattr(tx.objects.real_object(function), "__dict__", None)
    )


@models(functools.reduce)
def reduce(
    tx: TraceContext, function: Value, iterable: Value, initial: Value | None = None
) -> Value:
    items = iterable.unpack(tx)
    if initial is not None:
        items = [initial, *items]
    if not items:
        raise tx.exceptions.new(TypeError, "reduce() of empty iterable with no initial value")
    total = items[0]
    for item in items[1:]:
        total = function.call(tx, [total, item], {})
    return total


@models(functools.update_wrapper)
def update_wrapper(tx: TraceContext, wrapper: Value, wrapped: Value, **kwargs: Value) -> Value:
    if not kwargs and isinstance(wrapper, FunctionValue) and is_function_in_c(wrapped):
        real = getattr(wrapped, "real", None)
        for name in COPIED:
            if hasattr(real, name):
                wrapper.set_attribute(tx, name, tx.wrap(getattr(real, name), None))
        wrapper.set_attribute(tx, "__wrapped__", wrapped)
        return wrapper
    # which a bound method asks for what is copied
    function = wrapped.function if isinstance(wrapped, MethodValue) else wrapped
    if kwargs or not isinstance(wrapper, FunctionValue) or not isinstance(function, FunctionValue):
        raise GraphBreak("unknown-call", "functools.update_wrapper() with these arguments")
    if getattr(function.real, "__type_params__", ()):
        raise GraphBreak("unknown-call", "functools.update_wrapper() of a generic function")
    for name in functools.WRAPPER_ASSIGNMENTS:
        if name in COPIED:
            wrapper.set_attribute(tx, name, function.attribute(tx, name))
    for name in (
        *(function.real.__dict__ if function.real is not None else ()),
        *function.attributes,
    ):
        if name not in functools.WRAPPER_ASSIGNMENTS:
            wrapper.set_attribute(tx, name, function.attribute(tx, name))
    wrapper.set_attribute(tx, "__wrapped__", wrapped)
    return wrapper


def is_function_in_c(function: Value) -> bool:
    """Whether it is a function with no attributes but those defined in C."""
    return isinstance(function, BuiltinValue) and isinstance(
        function.real, types.BuiltinFunctionType | types.MethodDescriptorType
    )


COPIED = ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__")


@models(functools.wraps)
def wraps(tx: TraceContext, wrapped: Value, **kwargs: Value) -> Value:
    return PartialValue(tx.wrap(functools.update_wrapper, None), [], {"wrapped": wrapped})
