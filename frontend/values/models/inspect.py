"""inspect: queries about kinds of objects."""

from __future__ import annotations

import inspect

from ....errors import GraphBreak
from ..base import Value
from ..constant import Constant
from ..context import TraceContext
from ..functions.builtin_function import BuiltinValue
from ..functions.function import FunctionValue
from ..functions.method import MethodValue
from ..objects.class_value import ClassValue
from ..objects.frozen_object import FrozenObject
from ..registry import models


@models(inspect.isfunction)
def isfunction(tx: TraceContext, obj: Value) -> Value:
    return Constant(isinstance(obj, FunctionValue))


@models(inspect.ismethod)
def ismethod(tx: TraceContext, obj: Value) -> Value:
    return Constant(isinstance(obj, MethodValue) and isinstance(obj.function, FunctionValue))


@models(inspect.isclass)
def isclass(tx: TraceContext, obj: Value) -> Value:
    return Constant(isinstance(obj, ClassValue))


@models(inspect.isbuiltin)
def isbuiltin(tx: TraceContext, obj: Value) -> Value:
    return Constant(isinstance(obj, BuiltinValue) and inspect.isbuiltin(obj.real))


@models(inspect.signature)
def signature(tx: TraceContext, obj: Value) -> Value:
    bound = isinstance(obj, MethodValue)
    function = obj.function if isinstance(obj, MethodValue) else obj
    if not isinstance(function, FunctionValue) or function.real is None:
        raise GraphBreak("unknown-call", f"inspect.signature() of {obj.describe()}")
    # they may be others by now
    if function.attributes or tx.objects.find(function.real.__annotations__) is not None:
        raise GraphBreak(
            "unknown-call", f"inspect.signature() of {obj.describe()}, which was changed"
        )
    real = inspect.signature(function.real)
    if bound:
        real = real.replace(parameters=list(real.parameters.values())[1:])
    return FrozenObject(real)
