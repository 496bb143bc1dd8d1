"""inspect: signatures of functions."""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import Any

from ....errors import GraphBreak
from ..base import Value
from ..constant import LITERAL_TYPES, Constant
from ..context import TraceContext
from ..functions.function import FunctionValue
from ..functions.method import MethodValue
from ..objects.frozen_object import FrozenObject
from ..registry import models


@models(inspect.signature)
def signature(tx: TraceContext, obj: Value) -> Value:
    real = inspect.signature(real_function(tx, obj, "signature"))
    if isinstance(obj, MethodValue):
        real = real.replace(parameters=list(real.parameters.values())[1:])
    return FrozenObject(real)


@models(inspect.getfullargspec)
def getfullargspec(tx: TraceContext, func: Value) -> Value:
    found = inspect.getfullargspec(real_function(tx, func, "getfullargspec"))
    return tx.wrap(inspect.FullArgSpec, None).call(
        tx, [value_of_field(tx, one) for one in found], {}
    )


def real_function(tx: TraceContext, obj: Value, asked: str) -> FunctionType:
    """The function whose parameters are asked for by inspect's function `asked`."""
    function = obj.function if isinstance(obj, MethodValue) else obj
    if not isinstance(function, FunctionValue) or function.real is None:
        raise GraphBreak("unknown-call", f"inspect.{asked}() of {obj.describe()}")
    # they may be others by now
    if function.attributes or tx.objects.find(function.real.__annotations__) is not None:
        raise GraphBreak(
            "unknown-call", f"inspect.{asked}() of {obj.describe()}, which was changed"
        )
    return function.real


def value_of_field(tx: TraceContext, found: Any) -> Value:
    """A field of a FullArgSpec: a new list, tuple or dictionary, a name, or None."""
    if isinstance(found, list):
        return tx.make.list_of([item_of(tx, one) for one in found])
    if isinstance(found, tuple):
        return tx.make.tuple_of([item_of(tx, one) for one in found])
    if isinstance(found, dict):
        return tx.make.dict_of([(Constant(key), item_of(tx, one)) for key, one in found.items()])
    return item_of(tx, found)


def item_of(tx: TraceContext, item: Any) -> Value:
    """A name, a default or an annotation."""
    if type(item) in LITERAL_TYPES or isinstance(item, type):
        return tx.wrap(item, None)
    if type(item).__module__ in ("typing", "types"):
        return FrozenObject(item)
    raise GraphBreak("unknown-call", f"inspect.getfullargspec() with a {type(item).__name__}")
