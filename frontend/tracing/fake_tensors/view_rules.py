"""Rules for operators that return views: of any strided tensor, but for view() itself, which needs
one whose dimensions can be joined. A rule returns None where torch's operator has to run
(fake_rules.py)."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import in_kernel_invocation_manager

from ....backends.graph.passes.symbolic_sizes import has_known_hints
from .fake_rules import FakeRules, rule, strides_of
from .size_products import Size, is_same_size, missing_size, product_of, strides_of_view

aten = torch.ops.aten
LONGEST = 2**63 - 1


@rule(aten.view.default, aten._unsafe_view.default)
def view(fakes: FakeRules, x: Any, sizes: Any) -> Any:
    """A view with other sizes on the same elements; None where strides for it are not certain."""
    if not fakes.is_strided(x) or not x.dim():
        return None
    sizes = list(sizes)
    open_at = [at for at, size in enumerate(sizes) if isinstance(size, int) and size < 0]
    others = [size for at, size in enumerate(sizes) if at not in open_at]
    if len(open_at) > 1 or any(isinstance(size, int) and size == 0 for size in (*x.shape, *others)):
        return None
    if open_at:
        size = missing_size(x.shape, others)
        if size is None:
            return None
        sizes[open_at[0]] = size
    elif product_of(x.shape) != product_of(sizes):
        return None
    strides = (
        strides_of(sizes) if fakes.is_contiguous(x) else strides_of_view(x.shape, x.stride(), sizes)
    )
    return None if strides is None else fakes.share(x, sizes, strides)


@rule(aten.t.default)
def t(fakes: FakeRules, x: Any) -> Any:
    return transpose(fakes, x, 0, 1) if x.dim() == 2 else None


@rule(aten.transpose.int)
def transpose(fakes: FakeRules, x: Any, one: Any, other: Any) -> Any:
    if (
        not fakes.is_strided(x)
        or x.dim() < 2
        or not all(type(dim) is int and -x.dim() <= dim < x.dim() for dim in (one, other))
    ):
        return None
    sizes, strides = list(x.shape), list(x.stride())
    for numbers in (sizes, strides):
        numbers[one], numbers[other] = numbers[other], numbers[one]
    return fakes.share(x, sizes, strides)


@rule(aten.permute.default)
def permute(fakes: FakeRules, x: Any, dims: Any) -> Any:
    if not fakes.is_strided(x) or not all(type(dim) is int for dim in dims):
        return None
    order = [dim % x.dim() if -x.dim() <= dim < x.dim() else -1 for dim in dims]
    if sorted(order) != [*range(x.dim())]:
        return None
    return fakes.share(x, [x.shape[dim] for dim in order], [x.stride(dim) for dim in order])


@rule(aten.unsqueeze.default)
def unsqueeze(fakes: FakeRules, x: Any, dim: Any) -> Any:
    if not fakes.is_strided(x) or type(dim) is not int or not -x.dim() - 1 <= dim <= x.dim():
        return None
    sizes, strides, at = list(x.shape), list(x.stride()), dim % (x.dim() + 1)
    strides.insert(at, sizes[at] * strides[at] if at < x.dim() else 1)
    sizes.insert(at, 1)
    return fakes.share(x, sizes, strides)


@rule(aten.slice.Tensor)
def slice_(
    fakes: FakeRules, x: Any, dim: Any = 0, start: Any = None, end: Any = None, step: Any = 1
) -> Any:
    """A slice of a whole dimension, as the colon in `x[:, 1]`, or of one whose size is known; of
    the first items of one, up to a bound that varies and is guarded to be in it."""
    if not (fakes.is_strided(x) and type(dim) is int and -x.dim() <= dim < x.dim()):
        return None
    if type(step) is not int or step != 1:
        return None
    sizes, strides = list(x.shape), x.stride()
    if (start is None or is_same_size(start, 0)) and (
        end is None or (type(end) is int and end >= LONGEST)
    ):
        return fakes.share(x, sizes, strides)
    if (start is None or is_same_size(start, 0)) and is_within(end, sizes[dim]):
        sizes[dim] = end
        return fakes.share(x, sizes, strides)
    if not all(bound is None or type(bound) is int for bound in (start, end)):
        return None
    if type(sizes[dim]) is not int:
        return None
    first, last, _ = slice(start, end).indices(sizes[dim])
    sizes[dim] = max(0, last - first)
    return fakes.share(x, sizes, strides, first * strides[dim])


@rule(aten.select.int)
def select(fakes: FakeRules, x: Any, dim: Any, index: Any) -> Any:
    """An item of a dimension of known size, at an index that varies and is guarded to be in it."""
    if not (fakes.is_strided(x) and type(dim) is int and -x.dim() <= dim < x.dim()):
        return None
    if type(x.shape[dim]) is not int or not is_within(index, x.shape[dim] - 1):
        return None
    at = dim % x.dim()
    sizes = [size for other, size in enumerate(x.shape) if other != at]
    strides = [stride for other, stride in enumerate(x.stride()) if other != at]
    return fakes.share(x, sizes, strides, index * x.stride(dim))


def is_within(bound: Any, most: Size) -> bool:
    """Whether a bound varies and lies between zero and a number, which is guarded, as torch's
    operators do."""
    return (
        type(bound) is torch.SymInt
        and type(most) is int
        and has_known_hints(bound)
        and bool(bound >= 0)
        and bool(bound <= most)
    )


@rule(aten.expand.default)
def expand(fakes: FakeRules, x: Any, sizes: Any, *, implicit: bool = False) -> Any:
    """A view that repeats dimensions of size 1."""
    new = len(sizes) - x.dim()
    if (
        not fakes.is_strided(x)
        or new < 0
        or any(isinstance(size, int) and size < 0 for size in sizes[:new])
    ):
        return None
    strides: list[Size] = [0] * new
    sizes = list(sizes)
    for at, (size, stride) in enumerate(zip(x.shape, x.stride(), strict=True), new):
        if (isinstance(sizes[at], int) and sizes[at] == -1) or is_same_size(sizes[at], size):
            sizes[at] = size
            strides.append(stride)
        elif isinstance(size, int) and size == 1:
            strides.append(0)
        else:
            return None
    return fakes.share(x, sizes, strides)


@rule(
    aten.squeeze_.default, aten.squeeze_.dim, aten.squeeze_.dims, aten.unsqueeze_.default,
    aten.transpose_.default, aten.t_.default, aten.as_strided_.default,
)  # fmt: skip
def in_place_view(fakes: FakeRules, x: Any, *dims: Any) -> None:
    """Gives the storage the size that `make` has left open: torch's operator, which runs then,
    compares it with what the tensor's sizes need. vmap squeezes what a linear layer returns, and
    pooling of a channels-last image to one pixel sets the strides of a mean."""
    if not fakes.is_strided(x):
        return
    held = x.untyped_storage().nbytes()
    if type(held) is int and held == 0:
        steps = zip(x.shape, x.stride(), strict=True)
        elements = x.storage_offset() + sum((size - 1) * stride for size, stride in steps) + 1
        with in_kernel_invocation_manager(fakes.mode):
            torch.ops.inductor.resize_storage_bytes_(x, elements * x.element_size())
