"""functools."""

from __future__ import annotations

import functools

from ..base import Value
from ..context import TraceContext
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
