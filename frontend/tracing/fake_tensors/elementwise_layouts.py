"""Strides of dimensions of one element, in results of elementwise operators.

Where all operands are contiguous and of one shape, torch lays the result out as contiguous. Such a
tensor may also be channels-last, or transposed, and its fake result then keeps these strides.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch._subclasses.fake_tensor import FakeTensor

from .fake_rules import FakeRules, strides_of
from .size_products import have_same_sizes, is_same_size

# Elementwise operators whose result has the strides of their operand.
KEEP_STRIDES = frozenset("clone conj_physical deg2rad rad2deg hardtanh relu6 nan_to_num".split())
SCALARS = ("self", "other")  # a number that is one of these becomes a tensor without dimensions


def as_laid_out(func: Any, args: Sequence[Any], result: Any) -> Any:
    """An operator's fake result, with the strides that the real one has."""
    if not is_contiguous_unlike_its_fake(func, args, result):
        return result
    return FakeRules(result.fake_mode).make(result, [*result.shape])


def is_contiguous_unlike_its_fake(func: Any, args: Sequence[Any], result: Any) -> bool:
    """Whether an operator's result is contiguous and its fake has other strides."""
    if (
        type(result) is not FakeTensor
        or result.constant is not None
        or not any(map(is_one, result.shape))
        or not is_elementwise(func)
    ):
        return False
    if any(not isinstance(args[at], torch.Tensor) for at in operands(func) if at < len(args)):
        return False
    tensors = [one for one in pytree.arg_tree_leaves(*args) if isinstance(one, torch.Tensor)]
    return not is_contiguous(result.shape, result.stride(), skips_ones=False) and all(
        one.dim() == result.dim()
        and all(map(is_same_size, one.shape, result.shape))
        and is_contiguous(one.shape, one.stride(), skips_ones=True)
        for one in tensors
    )


def is_contiguous(sizes: Sequence[Any], strides: Sequence[Any], skips_ones: bool) -> bool:
    """Whether the strides are those of a contiguous tensor; with `skips_ones`, those of dimensions
    with more than one element."""
    kept = [at for at, size in enumerate(sizes) if not (skips_ones and is_one(size))]
    expected = strides_of(sizes)
    return have_same_sizes([strides[at] for at in kept], [expected[at] for at in kept])


def is_one(size: Any) -> bool:
    return type(size) is int and size == 1


@cache
def is_elementwise(func: Any) -> bool:
    return (
        isinstance(func, torch._ops.OpOverload)
        and torch.Tag.pointwise in func.tags
        and not func._schema.is_mutable
        and func._schema.name.partition("::")[2] not in KEEP_STRIDES
    )


@cache
def operands(func: Any) -> tuple[int, ...]:
    """The positions of an operator's two operands."""
    return tuple(
        at for at, argument in enumerate(func._schema.arguments) if argument.name in SCALARS
    )
