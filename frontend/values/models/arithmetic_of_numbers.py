"""Operators of torch that are called with two numbers, `torch.div(size, 2, rounding_mode="trunc")`.
Eager makes tensors of them."""

from __future__ import annotations

from typing import Any

import torch

from ..base import Value
from ..constant import Constant
from ..context import TraceContext
from ..registry import models
from ..tensor.symbolic_number import is_number

CPU = Constant(torch.device("cpu"))  # also where another device is the default


def _function(function: Any) -> None:
    @models(function)
    def call(tx: TraceContext, *args: Value, **kwargs: Value) -> Value:
        return tx.graph.function(function, *with_a_tensor(tx, args), **kwargs)


for _f in (
    torch.subtract,
    torch.mul,
    torch.multiply,
    torch.div,
    torch.divide,
    torch.true_divide,
    torch.floor_divide,
):
    _function(_f)


def with_a_tensor(tx: TraceContext, args: tuple[Value, ...]) -> tuple[Value, ...]:
    """The arguments of an operator, with a tensor for the first of two numbers."""
    given = tuple(map(tx.look, args))
    if len(given) == 2 and all(map(is_int_or_float, given)):
        return number_as_tensor(tx, given[0]), args[1]
    return args


def is_int_or_float(value: Value) -> bool:
    return is_number(value) and value.python_type() is not bool


def number_as_tensor(tx: TraceContext, number: Value) -> Value:
    is_int = number.python_type() is int
    dtype = torch.int64 if is_int else torch.get_default_dtype()
    return tx.graph.function(torch.scalar_tensor, number, dtype=Constant(dtype), device=CPU)
