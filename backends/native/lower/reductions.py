"""Reductions: sums, means, extremes, variances, norms, softmax."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx

from ..ir.index import ONE, Index, index, product
from ..ir.program import View
from ..ir.scalar import Scalar, cast, position
from ..ir.scalar import scalar as s
from .build import Builder
from .pointwise import computation_of
from .registry import Unsupported, lowers

aten = torch.ops.aten


Formula = Callable[[Scalar], Scalar]


def dimensions(x: View, dims: Any) -> list[int]:
    """The dimensions, counted from the front; none given means all."""
    rank = len(x.size)
    if dims is None or dims == [] or dims == ():
        return list(range(rank))
    return sorted(
        {dim % rank if rank else 0 for dim in ([dims] if isinstance(dims, int) else dims)}
        & set(range(rank))
    )


def same(value: Scalar) -> Scalar:
    return value


def reduce_over(
    build: Builder, x: View, dims: Sequence[int], kind: str, value: Formula, like: torch.Tensor
) -> View:
    """x reduced over dims, after `value` is applied to each element. `like`: a fake tensor of the
    result, with or without the reduced dimensions."""
    keep = len(like.shape) == len(x.size)

    def body(outer: Sequence[Index], inner: Sequence[Index]) -> Scalar:
        left, right = iter(outer), iter(inner)
        place = []
        for number in range(len(x.size)):
            if number in dims:
                place.append(next(right))
                if keep:
                    next(left)
            else:
                place.append(next(left))
        return value(build.read(x, place))

    return build.reduction([x.size[dim] for dim in dims], body, kind, like)


def reduce_and_finish(
    build: Builder,
    x: View,
    dims: Any,
    kind: str,
    like: torch.Tensor,
    before: Formula = same,
    behind: Formula = same,
) -> View:
    """Reduces like reduce_over, in the type that torch computes in, and passes the result through
    `behind`."""
    work = computation_of(like.dtype)
    at_work = like if like.dtype == work else like.to(work)
    over = dimensions(x, dims)
    found = reduce_over(build, x, over, kind, lambda value: before(cast(value, work)), at_work)
    if behind is same and work == like.dtype:
        return found
    return build.pointwise(lambda at: behind(build.read(found, at)), like)


def _totals(kind: str, *operators: Any) -> None:
    @lowers(*operators)
    def lower(build: Builder, x: View, dims: Any = None, keepdim: bool = False, **_: Any) -> View:
        return total(build, x, dims, kind)


_totals("sum", aten.sum.dim_IntList, aten.sum.default)
_totals("prod", aten.prod.default, aten.prod.dim_int)


def total(build: Builder, x: View, dims: Any, kind: str) -> View:
    if build.fake.dtype == torch.bool:
        raise Unsupported("a sum as bool")
    return reduce_and_finish(build, x, dims, kind, build.fake)


@lowers(aten.mean.dim, aten.mean.default)
def mean(build: Builder, x: View, dims: Any = None, keepdim: bool = False, **_: Any) -> View:
    length = product([x.size[dim] for dim in dimensions(x, dims)])
    count = position(length, computation_of(build.fake.dtype))
    return reduce_and_finish(build, x, dims, "sum", build.fake, behind=lambda value: value / count)


def extreme(build: Builder, x: View, dims: Any, kind: str, like: torch.Tensor) -> View:
    refuse_truth_values(x)
    return reduce_and_finish(build, x, dims, kind, like)


def refuse_truth_values(x: View) -> None:
    if x.dtype == torch.bool:
        raise Unsupported("an extreme of truth values")


def _extremes(kind: str, whole: Sequence[Any], along: Any, place: Any) -> None:
    """Lowers the operators for the largest or smallest element, for it and its position along a
    dimension, and for its position."""

    @lowers(*whole)
    def lower(build: Builder, x: View, dims: Any = (), keepdim: bool = False) -> View:
        return extreme(build, x, dims, kind, build.fake)

    @lowers(along)
    def lower_both(build: Builder, x: View, dim: int, keepdim: bool = False) -> tuple[View, View]:
        values, indices = build.fake
        return extreme(build, x, dim, kind, values), arg(build, x, dim, "arg" + kind, indices)

    @lowers(place)
    def lower_position(build: Builder, x: View, dim: Any = None, keepdim: bool = False) -> View:
        return arg(build, x, dim, "arg" + kind, build.fake)


_extremes("max", (aten.amax.default, aten.max.default), aten.max.dim, aten.argmax.default)
_extremes("min", (aten.amin.default, aten.min.default), aten.min.dim, aten.argmin.default)


def arg(build: Builder, x: View, dim: Any, kind: str, like: torch.Tensor) -> View:
    refuse_truth_values(x)
    work = computation_of(x.dtype)
    return reduce_over(build, x, dimensions(x, dim), kind, lambda value: cast(value, work), like)


@lowers(aten.any.default, aten.any.dim, aten.any.dims)
def any_true(build: Builder, x: View, dims: Any = None, keepdim: bool = False) -> View:
    return has_true(build, x, dims, same)


@lowers(aten.all.default, aten.all.dim, aten.all.dims)
def all_true(build: Builder, x: View, dims: Any = None, keepdim: bool = False) -> View:
    return has_true(build, x, dims, lambda value: s("not", value))


def has_true(build: Builder, x: View, dims: Any, around: Formula) -> View:
    """Whether an element is true; `around` is applied to each, and to the result."""
    if build.fake.dtype != torch.bool:
        raise Unsupported("any or all of bytes")
    return reduce_and_finish(build, x, dims, "any", build.fake, around, around)


# --- variance and norms
# --------------------------------------------------------------------------------------------------


def moments(
    build: Builder,
    x: View,
    over: Sequence[int],
    work: torch.dtype,
    shape: Sequence[Any] | None = None,
) -> tuple[View, View, Scalar]:
    """Mean and sum of squared distances to it, with `over` kept as dimensions of size 1, and the
    count. shape: x's, where it is not that of the node's first argument."""
    kept = build_shape(build, over, work, shape)
    count = position(product([x.size[dim] for dim in over]), work)
    found = reduce_over(build, x, over, "sum", lambda value: cast(value, work), kept)
    average = build.pointwise(lambda at: build.read(found, at) / count, kept)

    def distance(outer: Sequence[Index], inside: Sequence[Index]) -> Scalar:
        place = list(outer)
        for dim, subscript in zip(over, inside, strict=True):
            place[dim] = subscript
        return cast(build.read(x, place), work) - build.read(average, outer)

    def square(outer: Sequence[Index], inside: Sequence[Index]) -> Scalar:
        return distance(outer, inside) * distance(outer, inside)

    sizes = [x.size[dim] for dim in over]
    # a long sum is rounded: without this, a norm of equal numbers would not be zero
    error = build.reduction(sizes, distance, "sum", kept)
    corrected = build.pointwise(
        lambda at: build.read(average, at) + build.read(error, at) / count, kept
    )
    return corrected, build.reduction(sizes, square, "sum", kept), count


def build_shape(
    build: Builder, over: Sequence[int], work: torch.dtype, shape: Sequence[Any] | None = None
) -> torch.Tensor:
    """A fake tensor of a shape, the node's first argument's where none is given, but with `over` of
    size 1."""
    like = build.fake[0] if isinstance(build.fake, (tuple, list)) else build.fake
    reduced: Any = build.node.args[0]
    whole = reduced.meta["val"].shape if shape is None else shape
    with like.fake_mode:  # without one, torch loads its classes of distributed tensors to compare
        made: torch.Tensor = like.new_empty(
            [1 if number in over else size for number, size in enumerate(whole)], dtype=work
        )
    return made


def root(variance: Scalar) -> Scalar:
    return s("sqrt", variance)


def _variances(alone: Any, with_mean: Any, last: Formula) -> None:
    """Lowers the operators for the variance passed through `last`, and for it and the mean."""

    @lowers(alone)
    def lower(
        build: Builder, x: View, dims: Any = None, *, correction: Any = None, **_: Any
    ) -> View:
        return variance_and_mean(build, x, dims, correction, build.fake, last)[0]

    @lowers(with_mean)
    def lower_both(
        build: Builder, x: View, dims: Any = None, *, correction: Any = None, **_: Any
    ) -> tuple[View, View]:
        like, average = build.fake
        first, found = variance_and_mean(build, x, dims, correction, like, last)
        return first, squeeze_over(build, average, found, dimensions(x, dims))


_variances(aten.var.correction, aten.var_mean.correction, same)
_variances(aten.std.correction, aten.std_mean.correction, root)


def variance_and_mean(
    build: Builder, x: View, dims: Any, correction: Any, like: torch.Tensor, last: Formula
) -> tuple[View, View]:
    """The variance passed through `last`, and the mean with the dimensions kept. On the CPU torch
    computes them in float64, where squares of float32 are neither too large nor too small."""
    over = dimensions(x, dims)
    work = torch.float64 if x.device.type == "cpu" else computation_of(like.dtype)
    average, squares, count = moments(build, x, over, work)
    freedom = s("maximum", count - (1 if correction is None else correction), 0)
    return squeeze_over(build, like, squares, over, lambda v: last(v / freedom)), average


def squeeze_over(
    build: Builder, like: torch.Tensor, x: View, over: Sequence[int], value: Formula = same
) -> View:
    """value of x's elements in like's shape, which may lack the dimensions `over`."""
    keep = len(like.shape) == len(x.size)

    def body(subscripts: Sequence[Index]) -> Scalar:
        left = iter(subscripts)
        place = (
            list(subscripts)
            if keep
            else [index(0) if number in over else next(left) for number in range(len(x.size))]
        )
        return value(build.read(x, place))

    return build.pointwise(body, like)


# of a vector norm: the reduction, what each element becomes before, and the result after it
NORMS: dict[float, tuple[str, Formula, Formula]] = {
    2: ("sum", lambda v: v * v, lambda v: s("sqrt", v)),
    1: ("sum", lambda v: s("abs", v), same),
    float("inf"): ("max", lambda v: s("abs", v), same),
}


@lowers(aten.linalg_vector_norm.default)
def vector_norm(
    build: Builder, x: View, order: Any = 2, dims: Any = None, keepdim: bool = False, **_: Any
) -> View:
    if order not in NORMS:
        raise Unsupported("a norm of this order")
    if all(x.size[dim] == ONE for dim in dimensions(x, dims)):
        order = 1  # torch does not square a single number, which may be tiny or huge
    kind, before, behind = NORMS[order]
    return reduce_and_finish(build, x, dims, kind, build.fake, before, behind)


# --- softmax
# --------------------------------------------------------------------------------------------------


@lowers(aten._softmax.default)
def softmax(build: Builder, x: View, dim: int, half_to_float: bool) -> View:
    return shifted_by_max(build, x, dim, lambda shifted, sum: s("exp", shifted) / sum)


def shifted_by_max(
    build: Builder, x: View, dim: int, last: Callable[[Scalar, Scalar], Scalar]
) -> View:
    """last(x - its maximum along dim, the sum of the exponentials of that)."""
    over, work = dimensions(x, dim), computation_of(build.fake.dtype)
    if not x.size:
        raise Unsupported("no dimension")
    kept = build_shape(build, over, work)
    top = reduce_over(build, x, over, "max", lambda value: cast(value, work), kept)

    def shift_by_top(at: Sequence[Index], row: Sequence[Index]) -> Scalar:
        return cast(build.read(x, at), work) - build.read(top, row)

    def exponential(outer: Sequence[Index], inner: Sequence[Index]) -> Scalar:
        place = list(outer)
        place[over[0]] = inner[0]
        return s("exp", shift_by_top(place, outer))

    sums = build.reduction([x.size[over[0]]], exponential, "sum", kept)
    return build.pointwise(lambda at: last(shift_by_top(at, at), build.read(sums, at)))


@lowers(aten._softmax_backward_data.default)
def softmax_backward(build: Builder, grad: View, y: View, dim: int, dtype: torch.dtype) -> View:
    return softmax_gradient(
        build, grad, y, dim, lambda g, out: g * out, lambda g, out, sum: out * (g - sum)
    )


def softmax_gradient(
    build: Builder,
    grad: View,
    y: View,
    dim: int,
    summed: Callable[[Scalar, Scalar], Scalar],
    last: Callable[[Scalar, Scalar, Scalar], Scalar],
) -> View:
    """last(grad, y, the sum along dim of summed(grad, y))."""
    over, work = dimensions(y, dim), computation_of(y.dtype)
    if not y.size:
        raise Unsupported("no dimension")
    kept = build_shape(build, over, work)

    def operands(at: Sequence[Index]) -> tuple[Scalar, Scalar]:
        return cast(build.read(grad, at), work), cast(build.read(y, at), work)

    def body(outer: Sequence[Index], inner: Sequence[Index]) -> Scalar:
        place = list(outer)
        place[over[0]] = inner[0]
        return summed(*operands(place))

    sums = build.reduction([y.size[over[0]]], body, "sum", kept)
    return build.pointwise(lambda at: last(*operands(at), build.read(sums, at)))
