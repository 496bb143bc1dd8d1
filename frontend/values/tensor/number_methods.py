"""Methods of ints and floats that vary."""

from __future__ import annotations

from ..base import Value
from ..constant import Constant, fold
from ..context import TraceContext
from ..operators import binary
from ..registry import method
from .number_arithmetic import calculate, int_operands_of_division


@method(int, "bit_length")
def bit_length(tx: TraceContext, self: Value) -> Value:
    return calculate(tx, int.bit_length, self) or fold(tx, int.bit_length, [self], {})


@method(float, "is_integer")
def is_integer(tx: TraceContext, self: Value) -> Value:
    """Of an int that was divided by another: whether it is divisible."""
    operands = int_operands_of_division(tx, self)
    if operands is not None:
        return Constant(not binary(tx, "%", *operands).truth(tx))
    return fold(tx, float.is_integer, [self], {})
