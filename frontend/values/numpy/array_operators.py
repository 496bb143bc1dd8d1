"""Python's operators of which an operand is a NumPy array."""

from __future__ import annotations

import operator

import torch

from ....errors import GraphBreak
from ..base import Value
from ..constant import Constant
from ..context import TraceContext
from ..operation import Operation
from ..tensor.symbolic_number import SymbolicNumber
from ..tensor.tensor import TensorValue
from .array import ARRAYS, ArrayValue, call_numpy
from .expected_result import is_scalar, numpy
from .numpy_number import VaryingScalar
from .numpy_warnings import INTEGERS, expect_in_range
from .replacements import REPLACEMENTS

# Operators on two integers after which NumPy's scalars warn, and arrays do not: of an overflow
OVERFLOWING = frozenset({"+", "-", "*"})
WARNING = frozenset({"**", "//", "%", "<<"})  # of others, too


def call_on_arrays(tx: TraceContext, op: Operation, left: Value, right: Value) -> Value | None:
    """An operator of which an operand is an array; None for others, and for those of torch."""
    if not (isinstance(left, ARRAYS) or isinstance(right, ARRAYS)):
        return None
    if is_scalar_of_tensor(left, right) or is_scalar_of_tensor(right, left):
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
    if isinstance(result, ArrayValue) and result.is_scalar and result.fake.dtype in INTEGERS:
        expect_no_warning(tx, op, [left, right], result.fake.dtype)
    return result


def expect_no_warning(
    tx: TraceContext, op: Operation, operands: list[Value], dtype: torch.dtype
) -> None:
    """Expects that NumPy does not warn of an operator of integer scalars."""
    if op.symbol in WARNING:
        raise GraphBreak("unknown-call", f"`{op.sign}` of NumPy's integer scalars, which may warn,")
    if op.symbol in OVERFLOWING:
        doubles = [as_double(tx, side) for side in operands]
        expect_in_range(tx, op.sign, tx.graph.function(op.function, *doubles), dtype)


def as_double(tx: TraceContext, side: Value) -> Value:
    """An operand in a precision in which nothing overflows."""
    return side.tensor.method(tx, "double", [], {}) if isinstance(side, ArrayValue) else side


def is_scalar_of_tensor(value: Value, other: Value) -> bool:
    """Whether it is a scalar beside a tensor, to which it is a number."""
    return isinstance(value, ArrayValue) and value.is_scalar and isinstance(other, TensorValue)


def is_number_or_array(value: Value) -> bool:
    if isinstance(value, (*ARRAYS, VaryingScalar, SymbolicNumber)):
        return True
    return isinstance(value, Constant) and (
        type(value.object) in (bool, int, float, complex) or is_scalar(value.object)
    )
