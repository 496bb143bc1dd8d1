"""math: functions of numbers that vary, where torch's symbols have them, and prod(). On literals
they are folded."""

from __future__ import annotations

import math
from collections.abc import Callable

from ..base import Value
from ..constant import Constant, fold
from ..context import TraceContext
from ..operators import binary
from ..registry import models
from ..tensor.number_arithmetic import calculate
from ..tensor.number_functions import FUNCTIONS
from ..tensor.symbolic_number import SymbolicNumber


def _function(function: Callable[[float], float]) -> None:
    @models(function)
    def apply(tx: TraceContext, number: Value) -> Value:
        if isinstance(number, SymbolicNumber):
            return calculate(tx, function, number) or number
        return fold(tx, function, [number], {})


for _f in FUNCTIONS:
    _function(_f)


@models(math.prod)
def product(tx: TraceContext, iterable: Value, *, start: Value | None = None) -> Value:
    total: Value = Constant(1) if start is None else start
    for item in iterable.unpack(tx):
        total = binary(tx, "*", total, item)
    return total
