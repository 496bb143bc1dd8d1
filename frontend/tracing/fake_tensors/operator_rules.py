"""Rules for operators that return new tensors: elementwise ones, norms, reductions and products. A
rule returns None where torch's operator has to run (fake_rules.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .elementwise_layouts import is_dense
from .elementwise_strides import result_layout
from .fake_rules import FakeRules, broadcasts_to, rule
from .size_products import as_product, have_same_sizes, is_same_size

aten = torch.ops.aten
NUMBERS = (int, float, torch.SymInt, torch.SymFloat)
FULL = (torch.float32, torch.float64)  # what operators calculate in is also what they return


@rule(
    *(getattr(aten, name).default for name in (
        "sin", "cos", "tan", "tanh", "exp", "log", "log1p", "sqrt", "rsqrt", "sigmoid", "erf",
        "neg", "abs", "relu", "gelu", "silu",
        "reciprocal", "floor", "ceil", "round", "sign", "leaky_relu", "hardswish",
        "elu", "mish", "softplus", "hardsigmoid",
    )),
)  # fmt: skip
def of_one(fakes: FakeRules, x: Any, *numbers: Any, **named: Any) -> Any:
    """Elementwise, of a real tensor."""
    if not fakes.are_alike(x) or not x.is_floating_point():
        return None
    return (
        fakes.make(x, x.shape)
        if fakes.is_contiguous(x)
        else result_in_any_layout(fakes, x.dtype, x)
    )


@rule(aten.hardtanh.default)
def hardtanh(fakes: FakeRules, x: Any, *bounds: Any) -> Any:
    """Keeps the strides of its operand, of dimensions of one element too."""
    return fakes.make(x, x.shape) if fakes.is_known(x) and x.is_floating_point() else None


@rule(
    aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor, aten.maximum.default,
    aten.minimum.default, aten.mul.Scalar,
)  # fmt: skip
def of_two(fakes: FakeRules, x: Any, y: Any, **named: Any) -> Any:
    """Elementwise, of two tensors or of one and a number."""
    if not set(named) <= {"alpha"} or not isinstance(named.get("alpha", 1), NUMBERS):
        return None
    tensors = [one for one in (x, y) if type(one) not in NUMBERS]
    if not fakes.are_alike(*tensors) or not tensors[0].is_floating_point():
        return None
    return elementwise(fakes, tensors[0].dtype, x, y)


@rule(aten.pow.Tensor_Scalar)
def power(fakes: FakeRules, x: Any, exponent: Any) -> Any:
    return of_one(fakes, x) if type(exponent) in NUMBERS else None


def elementwise(fakes: FakeRules, dtype: torch.dtype, *operands: Any) -> Any:
    """A new tensor of the sizes that operands, strided tensors and numbers, broadcast to."""
    tensors = [one for one in operands if type(one) not in NUMBERS]
    if all(map(fakes.is_contiguous, tensors)):
        for full in tensors:
            if all(broadcasts_to(tensor.shape, full.shape) for tensor in tensors):
                return fakes.make(full, full.shape, dtype)
    return result_in_any_layout(fakes, dtype, *operands)


def result_in_any_layout(fakes: FakeRules, dtype: torch.dtype, *operands: Any) -> Any:
    """The same, of plain sizes, in any layout."""
    tensors = [one for one in operands if type(one) not in NUMBERS]
    layout = result_layout(tensors, with_number=len(tensors) < len(operands))
    return layout and fakes.make_strided(*layout, dtype, tensors[0].fake_device)


@rule(
    *(
        getattr(getattr(aten, name), kind)
        for name in ("eq", "ne", "lt", "le", "gt", "ge")
        for kind in ("Tensor", "Scalar")
    )
)
def comparison(fakes: FakeRules, x: Any, y: Any) -> Any:
    tensors = (x,) if type(y) in NUMBERS else (x, y)
    return elementwise(fakes, torch.bool, x, y) if fakes.are_alike(*tensors) else None


@rule(aten.native_layer_norm.default)
def layer_norm(fakes: FakeRules, x: Any, shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    """The rule of layer_norm, for any strided tensor: torch makes it contiguous first."""
    affine = [tensor for tensor in (weight, bias) if tensor is not None]
    if (
        not fakes.is_strided(x)
        or x.dtype not in FULL
        or not all(fakes.is_known(t) and t.dtype == x.dtype for t in affine)
        or not 0 < len(shape) <= x.dim()
        or any(tensor.fake_device.type != "cpu" for tensor in (x, *affine))
    ):
        return None
    at = x.dim() - len(shape)
    if not have_same_sizes(shape, x.shape[at:]) or not all(
        have_same_sizes(tensor.shape, shape) for tensor in affine
    ):
        return None
    each = [*x.shape[:at], *[1] * len(shape)]
    return fakes.make(x, [*x.shape]), fakes.make(x, each), fakes.make(x, each)


@rule(aten.native_group_norm.default)
def group_norm(
    fakes: FakeRules, x: Any, weight: Any, bias: Any, n: Any, c: Any, _: Any, groups: Any, eps: Any
) -> Any:
    affine = [tensor for tensor in (weight, bias) if tensor is not None]
    if (
        not is_image(fakes, x, *affine)
        or not (type(c) is type(groups) is int and c % groups == 0)
        or not (x.dim() > 1 and is_same_size(x.shape[0], n) and is_same_size(x.shape[1], c))
        or not all(tensor.dim() == 1 and is_same_size(tensor.shape[0], c) for tensor in affine)
    ):
        return None
    return fakes.make_like(x), fakes.make(x, [n, groups]), fakes.make(x, [n, groups])


@rule(aten._native_batch_norm_legit_no_training.default)
def batch_norm_by_statistics(
    fakes: FakeRules, x: Any, weight: Any, bias: Any, mean: Any, var: Any, *numbers: float
) -> Any:
    """The rule of batch_norm with given statistics: it returns none on the CPU."""
    if not is_batch_norm(fakes, x, weight, bias, mean, var):
        return None
    return fakes.make_like(x), fakes.make(x, [0]), fakes.make(x, [0])


@rule(aten.native_batch_norm.default, aten._native_batch_norm_legit.default)
def batch_norm(
    fakes: FakeRules, x: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, *_: float
) -> Any:
    if not is_batch_norm(fakes, x, weight, bias, mean, var):
        return None
    each = x.shape[1] if training else 0
    return fakes.make_like(x), fakes.make(x, [each]), fakes.make(x, [each])


def is_batch_norm(fakes: FakeRules, x: Any, *of_channels: Any) -> bool:
    """Whether the tensors are such that nothing has to be asked."""
    vectors = [tensor for tensor in of_channels if tensor is not None]
    return (
        is_image(fakes, x, *vectors)
        and x.dim() > 1
        and type(x.shape[1]) is int
        and x.shape[1] > 0
        and all(tensor.dim() == 1 and tensor.shape[0] == x.shape[1] for tensor in vectors)
    )


def is_image(fakes: FakeRules, x: Any, *others: Any) -> bool:
    """Whether x is contiguous or has channels last, and is on the CPU as the other tensors are,
    which are contiguous."""
    return (
        fakes.is_strided(x)
        and (fakes.is_contiguous(x) or fakes.is_channels_last(x))
        and x.dtype in FULL
        and x.fake_device.type == "cpu"
        and all(
            fakes.is_known(tensor) and tensor.dtype == x.dtype and tensor.fake_device.type == "cpu"
            for tensor in others
        )
    )


@rule(aten.cat.default)
def cat(fakes: FakeRules, tensors: Any, dim: Any = 0) -> Any:
    """The rule of cat, for tensors of one number of dimensions: an empty one of one dimension is
    left out. The result has channels last if all tensors have."""
    tensors = [tensor for tensor in tensors if not is_empty_vector(tensor)]
    if not tensors or not are_images(fakes, tensors):
        return None
    first, count = tensors[0], tensors[0].dim()
    if not count or type(dim) is not int or not -count <= dim < count:
        return None
    at = dim % count
    others = [[*tensor.shape[:at], *tensor.shape[at + 1 :]] for tensor in tensors]
    if not all(have_same_sizes(sizes, others[0]) for sizes in others):
        return None
    together = sum(tensor.shape[at] for tensor in tensors)
    sizes = [*first.shape[:at], together, *first.shape[at + 1 :]]
    if any(fakes.is_contiguous(tensor) or has_rows(tensor) for tensor in tensors):
        return fakes.make(first, sizes)
    return fakes.make_channels_last(first, sizes)


def is_empty_vector(tensor: torch.Tensor) -> bool:
    return tensor.dim() == 1 and is_same_size(tensor.shape[0], 0)


def are_images(fakes: FakeRules, tensors: Sequence[Any]) -> bool:
    """Whether these are fake tensors of one dtype on one device, each contiguous, in rows, or with
    channels last."""
    first = tensors[0]
    return all(
        fakes.is_strided(tensor)
        and (fakes.is_contiguous(tensor) or has_rows(tensor) or fakes.is_channels_last(tensor))
        and tensor.dtype == first.dtype
        and tensor.fake_device == first.fake_device
        for tensor in tensors
    )


def has_rows(tensor: Any) -> bool:
    """Whether the last dimension has stride 1 and the channels have not, so that the tensor is not
    channels-last."""
    return (
        tensor.dim() > 2
        and is_same_size(tensor.stride(-1), 1)
        and as_product(tensor.stride(1))[0] > 1
    )


@rule(aten.mean.dim, aten.sum.dim_IntList)
def sum_or_mean(
    fakes: FakeRules, x: Any, dims: Any, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    return None if dtype is not None or not dims else reduction(fakes, x, dims, keepdim)


@rule(aten.var_mean.correction)
def var_mean(
    fakes: FakeRules, x: Any, dims: Any = None, *, correction: Any = None, keepdim: bool = False
) -> Any:
    made = reduction(fakes, x, dims, keepdim) if dims else None
    return None if made is None else (made, reduction(fakes, x, dims, keepdim))


def reduction(fakes: FakeRules, x: Any, dims: Any, keepdim: bool) -> Any:
    """The result of a reduction that an empty dimension does not make an error."""
    if not fakes.is_known(x) or not x.is_floating_point():
        return None
    if not all(type(dim) is int and -x.dim() <= dim < x.dim() for dim in dims) or len(
        {dim % x.dim() for dim in dims}
    ) != len(dims):
        return None
    gone = {dim % x.dim() for dim in dims}
    sizes = [1 if dim in gone else size for dim, size in enumerate(x.shape)]
    return fakes.make(
        x, sizes if keepdim else [size for dim, size in enumerate(x.shape) if dim not in gone]
    )


@rule(aten.mm.default)
def mm(fakes: FakeRules, x: Any, y: Any) -> Any:
    """A matrix product. Its result is contiguous even where the operands are transposed."""
    if not (fakes.is_strided(x) and fakes.is_strided(y) and x.dim() == y.dim() == 2):
        return None
    meet = (
        x.dtype == y.dtype
        and x.dtype in FULL
        and x.fake_device == y.fake_device
        and is_same_size(x.shape[1], y.shape[0])
    )
    return fakes.make(x, [x.shape[0], y.shape[1]]) if meet else None


@rule(aten.bmm.default)
def bmm(fakes: FakeRules, x: Any, y: Any) -> Any:
    if not fakes.are_alike(x, y) or x.dtype not in FULL or not x.dim() == y.dim() == 3:
        return None
    meet = is_same_size(x.shape[0], y.shape[0]) and is_same_size(x.shape[2], y.shape[1])
    return fakes.make(x, [*x.shape[:2], y.shape[2]]) if meet else None


@rule(aten._softmax.default, aten._log_softmax.default)
def softmax(fakes: FakeRules, x: Any, dim: Any, half_to_float: bool) -> Any:
    fits = type(dim) is int and -x.dim() <= dim < x.dim() and x.dtype in FULL
    return fakes.make(x, x.shape) if fits and not half_to_float and fakes.is_known(x) else None


@rule(aten.addmm.default)
def addmm(fakes: FakeRules, bias: Any, x: Any, y: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    made = mm(fakes, x, y)
    return (
        made
        if made is not None
        and fakes.is_known(bias, made)
        and bias.dim() == 1
        and is_same_size(bias.shape[0], made.shape[1])
        else None
    )


@rule(aten.where.self)
def where(fakes: FakeRules, condition: Any, x: Any, y: Any) -> Any:
    if (
        not fakes.are_alike(condition)
        or condition.dtype != torch.bool
        or not fakes.are_alike(x, y)
        or x.fake_device != condition.fake_device
    ):
        return None
    return elementwise(fakes, x.dtype, condition, x, y)


@rule(aten.cumsum.default)
def cumsum(fakes: FakeRules, x: Any, dim: Any, *, dtype: Any = None) -> Any:
    if (
        dtype is not None
        or not fakes.is_known(x)
        or type(dim) is not int
        or not -x.dim() <= dim < x.dim()
    ):
        return None
    if not x.is_complex():
        return fakes.make(x, x.shape, x.dtype if x.is_floating_point() else torch.int64)
    return None


@rule(
    aten.bitwise_and.Tensor,
    aten.bitwise_or.Tensor,
    aten.logical_and.default,
    aten.logical_or.default,
)
def mask_arithmetic(fakes: FakeRules, x: Any, y: Any) -> Any:
    if type(y) in NUMBERS or not fakes.are_alike(x, y) or x.dtype != torch.bool:
        return None
    return elementwise(fakes, torch.bool, x, y)


@rule(aten.embedding.default)
def embedding(fakes: FakeRules, weight: Any, indices: Any, *_: Any) -> Any:
    if (
        not (fakes.is_known(weight) and fakes.is_known(indices) and weight.dim() == 2)
        or indices.dtype not in (torch.int64, torch.int32)
        or weight.fake_device != indices.fake_device
    ):
        return None
    return fakes.make(weight, [*indices.shape, weight.shape[1]])


@rule(aten._scaled_dot_product_flash_attention_for_cpu.default)
def flash_attention(
    fakes: FakeRules, query: Any, key: Any, value: Any, *options: Any, **named: Any
) -> Any:
    """Attention, its dimensions in the order of the query's, and a number a head and row."""
    numbers = (*query.shape, *query.stride())
    if not fakes.is_strided(query) or query.dtype not in FULL or query.dim() != 4:
        return None
    if not all(type(number) is int for number in numbers) or 0 in numbers:
        return None
    heads, rows = query.shape[1:3]
    dtype, device = query.dtype, query.fake_device
    sums = fakes.make_strided(query.shape[:3], (rows * heads, 1, heads), dtype, device)
    if is_dense(query):
        return fakes.make_like(query), sums
    if 1 in query.shape or len(set(query.stride())) != 4:
        return None
    strides, step = [0] * 4, 1
    for dim in sorted(range(4), key=query.stride):
        strides[dim] = step
        step *= query.shape[dim]
    return fakes.make_strided(query.shape, strides, dtype, device), sums


@rule(aten.clone.default)
def clone(fakes: FakeRules, x: Any, *, memory_format: Any = None) -> Any:
    if memory_format is torch.contiguous_format:
        return fakes.make(x, [*x.shape]) if fakes.is_strided(x) else None
    usual = memory_format in (None, torch.preserve_format)
    return fakes.make(x, x.shape) if usual and fakes.is_known(x) else None
