"""functools."""
from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from ..base import Value
from ..function import PartialValue
from ..registry import models

if TYPE_CHECKING:
    from ..context import TraceContext


@models(functools.partial)
def partial(tx: TraceContext, function: Value, *args: Value, **kwargs: Value) -> Value:
    return PartialValue(function, list(args), kwargs)


@models(functools.reduce)
def reduce(tx: TraceContext, function: Value, iterable: Value, initial: Value | None = None) -> Value:
    items = tx.unpack(iterable)
    if initial is not None:
        items = [initial, *items]
    if not items:
        raise tx.throw(TypeError, "reduce() of empty iterable with no initial value")
    total = items[0]
    for item in items[1:]:
        total = function.call(tx, [total, item], {})
    return total


@models(functools.update_wrapper)
def update_wrapper(tx: TraceContext, wrapper: Value, wrapped: Value, **kwargs: Value) -> Value:
    tx.effects.change(wrapper)
    wrapper.attributes["__wrapped__"] = wrapped  # type: ignore[attr-defined]
    return wrapper


@models(functools.wraps)
def wraps(tx: TraceContext, wrapped: Value, **kwargs: Value) -> Value:
    return PartialValue(tx.wrap(functools.update_wrapper, None), [], {"wrapped": wrapped})
