"""inspect: questions about kinds of objects."""
from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from ..base import Value
from ..constant import Constant
from ..function import BuiltinValue, FunctionValue, MethodValue
from ..klass import ClassValue
from ..registry import models

if TYPE_CHECKING:
    from ..context import TraceContext


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
