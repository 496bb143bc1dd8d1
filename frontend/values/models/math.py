"""math: functions of numbers that vary, where torch's symbols have them. On literals they are
folded."""

from __future__ import annotations

from collections.abc import Callable

from ..base import Value
from ..constant import fold
from ..context import TraceContext
from ..registry import models
from ..tensor.symbolic_number import FUNCTIONS, SymbolicNumber, calculate


def _function(function: Callable[[float], float]) -> None:
    @models(function)
    def apply(tx: TraceContext, number: Value) -> Value:
        if isinstance(number, SymbolicNumber):
            return calculate(tx, function, number) or number
        return fold(tx, function, [number], {})


for _f in FUNCTIONS:
    _function(_f)
