"""Rules for operators that copy, select, order or place elements. A rule returns None where torch's
operator has to run (fake_rules.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .elementwise_layouts import is_dense
from .elementwise_strides import broadcast
from .fake_rules import FakeRules, rule
from .operator_rules import FULL
from .size_products import have_same_sizes

aten = torch.ops.aten
INDICES = (torch.int64, torch.int32)


def are_plain(fakes: FakeRules, *tensors: Any) -> bool:
    """Whether these are contiguous fake tensors of known sizes on one device, not empty."""
    return all(
        fakes.is_strided(tensor)
        and fakes.is_contiguous(tensor)
        and tensor.fake_device == tensors[0].fake_device
        and all(type(size) is int and size > 0 for size in tensor.shape)
        for tensor in tensors
    )


def is_dimension(x: Any, dim: Any) -> bool:
    return type(dim) is int and -x.dim() <= dim < x.dim()


@rule(aten._to_copy.default)
def to_copy(
    fakes: FakeRules,
    x: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    layout: Any = None,
    pin_memory: Any = None,
    non_blocking: bool = False,
    memory_format: Any = None,
) -> Any:
    """The rule of `to`, for another dtype. A tensor that fills its memory keeps its strides."""
    if not fakes.is_strided(x) or not is_dense(x) or layout not in (None, torch.strided):
        return None
    if pin_memory or 0 in x.shape:
        return None
    if memory_format not in (None, torch.preserve_format):
        return None
    same_device = device is None or torch.device(device) == x.fake_device
    to_real = x.is_complex() and dtype is not None and not dtype.is_complex
    return fakes.make_like(x, dtype) if same_device and not to_real else None


@rule(
    aten.empty_like.default, aten.zeros_like.default, aten.ones_like.default,
    aten.rand_like.default, aten.randn_like.default, aten.full_like.default,
)  # fmt: skip
def like(fakes: FakeRules, x: Any, value: Any = None, **options: Any) -> Any:
    return to_copy(fakes, x, **options) if not x.is_complex() else None


@rule(aten.tril.default, aten.triu.default)
def triangle(fakes: FakeRules, x: Any, diagonal: Any = 0) -> Any:
    taken = are_plain(fakes, x) and x.dim() > 1 and type(diagonal) is int
    return fakes.make(x, x.shape) if taken else None


@rule(aten.flip.default)
def flip(fakes: FakeRules, x: Any, dims: Sequence[Any]) -> Any:
    if not are_plain(fakes, x) or not all(is_dimension(x, dim) for dim in dims):
        return None
    once = len({dim % x.dim() for dim in dims}) == len(dims)
    return fakes.make(x, x.shape) if once else None


@rule(aten.roll.default)
def roll(fakes: FakeRules, x: Any, shifts: Sequence[Any], dims: Sequence[Any] = ()) -> Any:
    if not are_plain(fakes, x) or not all(type(shift) is int for shift in shifts):
        return None
    placed = len(shifts) == (len(dims) or 1) and all(is_dimension(x, dim) for dim in dims)
    return fakes.make(x, x.shape) if placed else None


@rule(
    aten.fill_.Scalar, aten.zero_.default, aten.bernoulli_.float, aten.uniform_.default,
    aten.normal_.default,
)  # fmt: skip
def fill(fakes: FakeRules, x: Any, *numbers: Any, generator: Any = None) -> Any:
    """Writes numbers into a tensor of floating-point numbers, which takes all of them."""
    taken = all(type(number) in (bool, int, float) for number in numbers)
    return x if taken and are_plain(fakes, x) and x.is_floating_point() else None


@rule(aten.fill_.Tensor)
def fill_with(fakes: FakeRules, x: Any, value: Any) -> Any:
    taken = fakes.are_alike(x, value) and are_plain(fakes, x) and not value.dim()
    return x if taken and x.is_floating_point() else None


@rule(aten.gather.default)
def gather(fakes: FakeRules, x: Any, dim: Any, index: Any, *, sparse_grad: bool = False) -> Any:
    if not is_placed(fakes, x, dim, index):
        return None
    return fakes.make(x, index.shape)


@rule(aten.scatter.src, aten.scatter_add.default)
def scatter(fakes: FakeRules, x: Any, dim: Any, index: Any, source: Any) -> Any:
    fits = (
        is_placed(fakes, x, dim, index)
        and are_plain(fakes, x, source)
        and x.dtype == source.dtype
        and source.dim() == x.dim()
        and all(map(int.__le__, index.shape, source.shape))
    )
    return fakes.make(x, x.shape) if fits else None


@rule(aten.scatter.value)
def scatter_number(fakes: FakeRules, x: Any, dim: Any, index: Any, value: Any) -> Any:
    fits = is_placed(fakes, x, dim, index) and type(value) in (bool, int, float)
    return fakes.make(x, x.shape) if fits else None


def is_placed(fakes: FakeRules, x: Any, dim: Any, index: Any) -> bool:
    """Whether an index has a position in x for each of its elements."""
    if not are_plain(fakes, x, index) or not x.dim() or index.dim() != x.dim():
        return False
    if index.dtype != torch.int64 or not is_dimension(x, dim):
        return False
    at = dim % x.dim()
    return all(
        here == at or size <= whole
        for here, (size, whole) in enumerate(zip(index.shape, x.shape, strict=True))
    )


@rule(aten.topk.default)
def topk(fakes: FakeRules, x: Any, k: Any, dim: Any = -1, *how: Any) -> Any:
    if not are_plain(fakes, x) or not x.dim() or not is_dimension(x, dim) or type(k) is not int:
        return None
    sizes = [*x.shape]
    if x.is_complex() or not 0 < k <= sizes[dim]:
        return None
    sizes[dim] = k
    return fakes.make(x, sizes), fakes.make(x, sizes, torch.int64)


@rule(aten.sort.default, aten.sort.stable)
def sort(fakes: FakeRules, x: Any, dim: Any = -1, *how: Any, **named: Any) -> Any:
    dim = named.get("dim", dim)
    if not are_plain(fakes, x) or not x.dim() or not is_dimension(x, dim) or x.is_complex():
        return None
    return fakes.make(x, x.shape), fakes.make(x, x.shape, torch.int64)


@rule(aten.stack.default)
def stack(fakes: FakeRules, tensors: Sequence[Any], dim: Any = 0) -> Any:
    first = tensors[0]
    if not are_plain(fakes, *tensors) or type(dim) is not int:
        return None
    if not all(one.dtype == first.dtype and one.shape == first.shape for one in tensors):
        return None
    if not -first.dim() - 1 <= dim <= first.dim():
        return None
    sizes = [*first.shape]
    sizes.insert(dim % (first.dim() + 1), len(tensors))
    return fakes.make(first, sizes)


@rule(aten.repeat.default)
def repeat(fakes: FakeRules, x: Any, times: Sequence[Any]) -> Any:
    if not are_plain(fakes, x) or not all(type(one) is int and one > 0 for one in times):
        return None
    new = len(times) - x.dim()
    if new < 0:
        return None
    sizes = [*[1] * new, *x.shape]
    return fakes.make(x, [size * count for size, count in zip(sizes, times, strict=True)])


@rule(aten.constant_pad_nd.default)
def pad(fakes: FakeRules, x: Any, counts: Sequence[Any], value: Any = 0) -> Any:
    if not are_plain(fakes, x) or not all(type(count) is int for count in counts):
        return None
    if len(counts) % 2 or len(counts) > 2 * x.dim() or type(value) not in (bool, int, float):
        return None
    sizes = [*x.shape]
    for at in range(0, len(counts), 2):
        sizes[-1 - at // 2] += counts[at] + counts[at + 1]
    cut = [count < -size for size, count in zip(reversed(x.shape), counts[::2], strict=False)]
    return fakes.make(x, sizes) if min(sizes) > 0 and not any(cut) else None


@rule(aten.index.Tensor)
def index(fakes: FakeRules, x: Any, indices: Sequence[Any]) -> Any:
    """The first dimensions of a tensor, indexed by tensors of integers."""
    count = next((at for at, one in enumerate(indices) if one is None), len(indices))
    given = indices[:count]
    if not given or any(one is not None for one in indices[count:]) or count > x.dim():
        return None
    if not are_plain(fakes, x, *given) or not all(one.dtype in INDICES for one in given):
        return None
    sizes = broadcast([tuple(one.shape) for one in given])
    return None if sizes is None else fakes.make(x, [*sizes, *x.shape[count:]])


@rule(aten.index_add.default)
def index_add(
    fakes: FakeRules, x: Any, dim: Any, index: Any, source: Any, *, alpha: Any = 1
) -> Any:
    if not are_plain(fakes, x, index, source) or not is_dimension(x, dim):
        return None
    if index.dim() != 1 or index.dtype not in INDICES or type(alpha) not in (int, float):
        return None
    at, sizes = dim % x.dim(), [*x.shape]
    sizes[at] = index.shape[0]
    fits = source.dtype == x.dtype and have_same_sizes(source.shape, sizes)
    exact = type(alpha) is int or x.is_floating_point()
    return fakes.make(x, x.shape) if fits and exact else None


@rule(
    aten.mse_loss.default, aten.smooth_l1_loss.default, aten.huber_loss.default,
    aten.binary_cross_entropy.default,
)  # fmt: skip
def loss(
    fakes: FakeRules, x: Any, target: Any, weight: Any = None, reduction: Any = 1, *numbers: Any
) -> Any:
    """A loss of equal sizes. The reduction 0 is none."""
    if type(weight) is int:  # of a loss without weights
        weight, reduction = None, weight
    if weight is not None or not are_plain(fakes, x, target) or x.dtype != target.dtype:
        return None
    if not x.is_floating_point() or x.shape != target.shape or reduction not in (0, 1, 2):
        return None
    return fakes.make(x, x.shape if reduction == 0 else [])


@rule(aten.binary_cross_entropy_with_logits.default)
def loss_of_logits(
    fakes: FakeRules,
    x: Any,
    target: Any,
    weight: Any = None,
    pos_weight: Any = None,
    reduction: Any = 1,
) -> Any:
    plain = weight is None and pos_weight is None
    return loss(fakes, x, target, None, reduction) if plain else None


@rule(aten.nll_loss_forward.default)
def nll_loss(
    fakes: FakeRules, x: Any, target: Any, weight: Any, reduction: Any, ignore_index: Any
) -> Any:
    if weight is not None or not are_plain(fakes, x, target) or x.dim() != 2 or target.dim() != 1:
        return None
    if not x.is_floating_point() or target.dtype != torch.int64 or target.shape[0] != x.shape[0]:
        return None
    return fakes.make(x, target.shape if reduction == 0 else []), fakes.make(x, [])


@rule(aten.glu.default)
def glu(fakes: FakeRules, x: Any, dim: Any = -1) -> Any:
    if not are_plain(fakes, x) or not x.is_floating_point() or not is_dimension(x, dim):
        return None
    sizes = [*x.shape]
    if sizes[dim] % 2:
        return None
    sizes[dim] //= 2
    return fakes.make(x, sizes)


@rule(aten.baddbmm.default)
def baddbmm(fakes: FakeRules, x: Any, y: Any, z: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    if not are_plain(fakes, x, y, z) or not y.dim() == z.dim() == 3 or x.dim() > 3:
        return None
    numbers = all(type(number) in (int, float) for number in (beta, alpha))
    if not numbers or not x.dtype == y.dtype == z.dtype or x.dtype not in FULL:
        return None
    sizes = (y.shape[0], y.shape[1], z.shape[2])
    meet = y.shape[0] == z.shape[0] and y.shape[2] == z.shape[1]
    return fakes.make(y, sizes) if meet and broadcast([tuple(x.shape), sizes]) == sizes else None
