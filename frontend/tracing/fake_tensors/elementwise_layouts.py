"""Strides of dimensions of one element, in results of elementwise operators and of operators whose
result is laid out like an operand.

Fake results take them from a formula in Python, which differs from torch's TensorIterator here: a
contiguous tensor with such dimensions may also be channels-last, or transposed, and their strides
decide where the iterator places the dimensions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch._subclasses.fake_tensor import FakeTensor

from . import elementwise_strides
from .elementwise_strides import result_layout
from .fake_rules import FakeRules, strides_of
from .size_products import have_same_sizes

# Operators whose result has the strides of their operand, if its elements fill their memory.
KEEP_STRIDES = frozenset(
    """clone conj_physical deg2rad rad2deg hardtanh relu6 nan_to_num _to_copy empty_like zeros_like
    ones_like full_like rand_like randn_like flip index_put
    _prelu_kernel""".split()
)
SCALARS = ("self", "other")  # a number that is one of these becomes a tensor without dimensions
BATCH_NORMS = frozenset(  # whose result is contiguous where that is a format of their operand
    """native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training
    _batch_norm_with_update _batch_norm_no_update""".split()
)
# Operators whose result is contiguous, whatever their operand is.
CONTIGUOUS = frozenset("masked_fill index_add index_copy tril triu _log_softmax".split())


def as_laid_out(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> Any:
    """An operator's fake result, or the first of several, with the strides that the real one
    has."""
    if type(result) is tuple and result and isinstance(func, torch._ops.OpOverload):
        if name_of(func) in BATCH_NORMS:
            return as_laid_out(func, args, kwargs, result[0]), *result[1:]
    if (
        type(result) is not FakeTensor
        or result.layout is not torch.strided
        or result.constant is not None
        or not any(map(is_one, result.shape))
        or not isinstance(func, torch._ops.OpOverload)
    ):
        return result
    strides = real_strides(func, args, kwargs, result)
    if strides is None or have_same_sizes(strides, result.stride()):
        return result
    fakes = FakeRules(result.fake_mode)
    return fakes.make_strided(result.shape, strides, result.dtype, result.fake_device)


def real_strides(
    func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: FakeTensor
) -> Sequence[Any] | None:
    """The strides of an operator's result; None where its fake result decides."""
    tensors = [one for one in pytree.arg_tree_leaves(*args) if isinstance(one, torch.Tensor)]
    if keeps_strides(func):
        usual = kwargs.get("memory_format") in (None, torch.preserve_format)
        return args[0].stride() if usual and is_dense(args[0]) else None
    if name_of(func) in CONTIGUOUS and not func._schema.is_mutable:
        return strides_of(result.shape)
    if name_of(func) in BATCH_NORMS:
        given = args[0].shape, args[0].stride()
        return strides_of(result.shape) if is_contiguous(*given, skips_ones=True) else None
    if not is_elementwise(func) or any(one.layout is not torch.strided for one in tensors):
        return None
    shapes = [one.shape for one in tensors]
    if any(not isinstance(args[at], torch.Tensor) for at in number_operands(func, args)):
        shapes.append(torch.Size())
    same = all(have_same_sizes(shape, result.shape) for shape in shapes)
    if same and all(is_contiguous(one.shape, one.stride(), skips_ones=True) for one in tensors):
        return strides_of(result.shape)
    layout = result_layout(tensors, with_number=len(shapes) > len(tensors))
    return layout[1] if layout and layout[0] == tuple(result.shape) else None


def has_known_layout(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and all(
        type(number) is int for number in (*tensor.shape, *tensor.stride())
    )


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether sizes are known, and elements fill their memory without gaps or overlaps."""
    if not has_known_layout(tensor):
        return False
    sizes, strides = tuple(tensor.shape), tensor.stride()
    order = tuple(sorted(range(len(sizes)), key=lambda dim: (strides[dim], sizes[dim])))
    return 0 in sizes or elementwise_strides.is_dense_in_order(sizes, strides, order)


def is_contiguous(sizes: Sequence[Any], strides: Sequence[Any], skips_ones: bool) -> bool:
    """Whether the strides are those of a contiguous tensor; with `skips_ones`, those of dimensions
    with more than one element."""
    kept = [at for at, size in enumerate(sizes) if not (skips_ones and is_one(size))]
    expected = strides_of(sizes)
    return have_same_sizes([strides[at] for at in kept], [expected[at] for at in kept])


def is_one(size: Any) -> bool:
    return type(size) is int and size == 1


def name_of(func: Any) -> str:
    name: str = func._schema.name
    return name.partition("::")[2]


@cache
def keeps_strides(func: Any) -> bool:
    return name_of(func) in KEEP_STRIDES


@cache
def is_elementwise(func: Any) -> bool:
    return torch.Tag.pointwise in func.tags and not func._schema.is_mutable


def number_operands(func: Any, args: Sequence[Any]) -> list[int]:
    """The positions, of these arguments, of operands that may be numbers."""
    return [at for at in operand_positions(func) if at < len(args)]


@cache
def operand_positions(func: Any) -> tuple[int, ...]:
    """The positions of an operator's two operands."""
    return tuple(
        at for at, argument in enumerate(func._schema.arguments) if argument.name in SCALARS
    )
