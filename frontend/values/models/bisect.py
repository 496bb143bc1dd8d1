"""bisect: positions in sorted lists, by comparisons of numbers that vary. On literals they are
folded."""

from __future__ import annotations

import bisect
from collections.abc import Callable
from typing import Any

from ..base import Value
from ..constant import Constant, can_fold, fold
from ..containers.sequence import Sequence
from ..context import TraceContext
from ..registry import models


def _function(
    function: Callable[..., int], goes_left: Callable[[TraceContext, Value, Value], Value]
) -> None:
    """goes_left: compares the number with an item; true where its place is before the item."""

    @models(function)
    def position(tx: TraceContext, a: Value, x: Value, *args: Value, **kwargs: Value) -> Value:
        known = can_fold([a, x], {}) and not x.varies()
        if known or args or kwargs or not isinstance(a, Sequence):
            return fold(tx, function, [a, x, *args], kwargs)
        items: list[Any] = a.unpack(tx)
        low, high = 0, len(items)
        while low < high:
            middle = (low + high) // 2
            if goes_left(tx, x, items[middle]).truth(tx):
                high = middle
            else:
                low = middle + 1
        return Constant(low)


def is_less(tx: TraceContext, x: Value, item: Value) -> Value:
    return tx.objects.compare("<", x, item)


def is_not_greater(tx: TraceContext, x: Value, item: Value) -> Value:
    return Constant(not tx.objects.compare("<", item, x).truth(tx))


_function(bisect.bisect_right, is_less)
_function(bisect.bisect_left, is_not_greater)
