"""Methods of ints and floats that vary."""

from __future__ import annotations

import operator

from ..base import Value
from ..constant import Constant, fold
from ..context import TraceContext
from ..operators import binary
from ..registry import method
from .symbolic_number import SymbolicNumber, calculate, within

EXACT = within(-(2**53), 2**53)  # ints that a float holds exactly


@method(int, "bit_length")
def bit_length(tx: TraceContext, self: Value) -> Value:
    return calculate(tx, int.bit_length, self) or fold(tx, int.bit_length, [self], {})


@method(float, "is_integer")
def is_integer(tx: TraceContext, self: Value) -> Value:
    """Of an int that was divided by another: whether it is divisible."""
    operands = self.operands if isinstance(self, SymbolicNumber) else ()
    ints = all(one.python_type() is int for one in operands)
    if isinstance(self, SymbolicNumber) and self.function is operator.truediv and ints:
        varying = [one for one in operands if isinstance(one, SymbolicNumber)]
        if all(EXACT(tx, one) for one in varying):
            return Constant(not binary(tx, "%", *operands).truth(tx))
    return fold(tx, float.is_integer, [self], {})
