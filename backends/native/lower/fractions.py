"""Scalar expressions over symbolic sizes that are not sizes themselves, such as 1 / n: kernels
compute them in float64, as Python does."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree

from ..ir.index import Index
from ..ir.scalar import Scalar, const, position, scalar

OPERATIONS: dict[Any, str] = {
    operator.truediv: "div", operator.mul: "mul", operator.add: "add", operator.sub: "sub",
    operator.neg: "neg", operator.pow: "pow", torch.sym_sqrt: "sqrt",
}  # fmt: skip


def fraction(target: Any, args: Sequence[Any]) -> Scalar:
    """An operator of Python's on sizes, numbers and fractions. Raises NotImplementedError for one
    that kernels do not have."""
    if target not in OPERATIONS and target is not torch.sym_float:
        raise NotImplementedError(f"{target} gives a number that is not an integer")
    operands = [as_fraction(arg) for arg in args]
    return operands[0] if target is torch.sym_float else scalar(OPERATIONS[target], *operands)


def as_fraction(value: Any) -> Scalar:
    if isinstance(value, Scalar):
        return value
    if isinstance(value, Index):
        return position(value, torch.float64)
    if not isinstance(value, (int, float)):
        raise NotImplementedError(f"a number made of a {type(value).__name__}")
    return const(value, torch.float64)


def refuse_fractions(arguments: Any, where: str) -> None:
    """Raises NotImplementedError where one is used outside of kernels."""
    if any(isinstance(leaf, Scalar) for leaf in pytree.tree_leaves(arguments)):
        raise NotImplementedError(f"{where} a number that is not an integer")
