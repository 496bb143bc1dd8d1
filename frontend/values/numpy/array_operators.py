"""Python's operators of which an operand is a NumPy array."""

from __future__ import annotations

import operator

from ....errors import GraphBreak
from ..base import Value
from ..constant import Constant
from ..context import TraceContext
from ..operation import Operation
from ..tensor.symbolic_number import SymbolicNumber
from .array import ARRAYS, ArrayValue, call_numpy
from .expected_result import is_scalar, numpy
from .numpy_number import VaryingScalar
from .numpy_warnings import INTEGERS
from .replacements import REPLACEMENTS

# Operators on two integers after which NumPy's scalars warn of an overflow, and arrays do not.
OVERFLOWING = frozenset({"+", "-", "*", "**", "//", "%", "<<"})


def call_on_arrays(tx: TraceContext, op: Operation, left: Value, right: Value) -> Value | None:
    """An operator of which an operand is an array; None for others."""
    if not (isinstance(left, ARRAYS) or isinstance(right, ARRAYS)):
        return None
    for side in (left, right):
        if not is_number_or_array(side):
            raise GraphBreak(
                "unsupported-operator", f"{left.describe()} {op.sign} {right.describe()}"
            )
    in_place = left.python_type() is numpy().ndarray
    function = op.written if in_place else op.function
    replacement = REPLACEMENTS["divide"] if function is operator.truediv else None
    result = call_numpy(
        tx, op.name.strip("_"), function, [left, right], {}, replacement=replacement
    )
    if (
        isinstance(result, ArrayValue)
        and result.is_scalar
        and op.symbol in OVERFLOWING
        and result.fake.dtype in INTEGERS
    ):
        raise GraphBreak(
            "unknown-call",
            f"`{op.sign}` of NumPy's integer scalars, which may warn of an overflow,",
        )
    return result


def is_number_or_array(value: Value) -> bool:
    if isinstance(value, (*ARRAYS, VaryingScalar, SymbolicNumber)):
        return True
    return isinstance(value, Constant) and (
        type(value.object) in (bool, int, float, complex) or is_scalar(value.object)
    )
