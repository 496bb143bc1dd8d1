"""inspect: signatures of functions."""

from __future__ import annotations

import inspect

from ....errors import GraphBreak
from ..base import Value
from ..context import TraceContext
from ..functions.function import FunctionValue
from ..functions.method import MethodValue
from ..objects.frozen_object import FrozenObject
from ..registry import models


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
