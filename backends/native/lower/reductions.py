"""Reductions: sums, means, extremes, variances, norms, softmax."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx

from ..ir.index import Index, index, product
from ..ir.ir import Scalar, View, cast, const, position
from ..ir.ir import scalar as s
from .build import Builder
from .pointwise import computation_of
from .registry import Unsupported, lowers

aten = torch.ops.aten


def dimensions(x: View, dims: Any) -> list[int]:
    """The dimensions, counted from the front; none given means all."""
    rank = len(x.size)
    if dims is None or dims == []:
        return list(range(rank))
    return sorted(
        {dim % rank if rank else 0 for dim in ([dims] if isinstance(dims, int) else dims)}
        & set(range(rank))
    )


def reduce_over(
    build: Builder,
    node: torch.fx.Node,
    like: torch.Tensor,
    x: View,
    dims: Sequence[int],
    kind: str,
    value: Callable[[Scalar], Scalar],
) -> View:
    """x reduced over dims, each element passed through `value` first; `like` may or may not have
    kept the dimensions."""
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

    return build.reduction(node, like, [x.size[dim] for dim in dims], body, kind)


def finish_elementwise(
    build: Builder,
    node: torch.fx.Node,
    like: torch.Tensor,
    x: View,
    value: Callable[[Scalar], Scalar],
) -> View:
    """An elementwise computation after a reduction, in the shape of its result."""
    return build.pointwise(
        node, like, lambda subscripts: cast(value(build.read(x, subscripts)), like.dtype)
    )


def as_type(like: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return like if like.dtype == dtype else like.to(dtype)


@lowers(aten.sum.dim_IntList, aten.sum.default)
def sum(
    build: Builder,
    node: torch.fx.Node,
    x: View,
    dims: Any = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> View:
    return total(build, node, x, dims, node.meta["val"], "sum")


@lowers(aten.prod.default, aten.prod.dim_int)
def prod(
    build: Builder,
    node: torch.fx.Node,
    x: View,
    dims: Any = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> View:
    return total(build, node, x, dims, node.meta["val"], "prod")


def total(
    build: Builder, node: torch.fx.Node, x: View, dims: Any, like: torch.Tensor, kind: str
) -> View:
    work = computation_of(like.dtype)
    if work == torch.bool:
        raise Unsupported("a sum as bool")
    found = reduce_over(
        build,
        node,
        as_type(like, work),
        x,
        dimensions(x, dims),
        kind,
        lambda value: cast(value, work),
    )
    return (
        found
        if work == like.dtype
        else finish_elementwise(build, node, like, found, lambda value: value)
    )


@lowers(aten.mean.dim, aten.mean.default)
def mean(
    build: Builder,
    node: torch.fx.Node,
    x: View,
    dims: Any = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> View:
    like, over = node.meta["val"], dimensions(x, dims)
    work = computation_of(like.dtype)
    found = reduce_over(
        build, node, as_type(like, work), x, over, "sum", lambda value: cast(value, work)
    )
    count = position(product([x.size[dim] for dim in over]), work)
    return finish_elementwise(build, node, like, found, lambda value: s("div", value, count))


@lowers(aten.amax.default)
def amax(
    build: Builder, node: torch.fx.Node, x: View, dims: Any = (), keepdim: bool = False
) -> View:
    return extreme(build, node, x, list(dims), "max", node.meta["val"])


@lowers(aten.amin.default)
def amin(
    build: Builder, node: torch.fx.Node, x: View, dims: Any = (), keepdim: bool = False
) -> View:
    return extreme(build, node, x, list(dims), "min", node.meta["val"])


@lowers(aten.max.default)
def max_all(build: Builder, node: torch.fx.Node, x: View) -> View:
    return extreme(build, node, x, None, "max", node.meta["val"])


@lowers(aten.min.default)
def min_all(build: Builder, node: torch.fx.Node, x: View) -> View:
    return extreme(build, node, x, None, "min", node.meta["val"])


def extreme(
    build: Builder, node: torch.fx.Node, x: View, dims: Any, kind: str, like: torch.Tensor
) -> View:
    over, work = dimensions(x, dims), computation_of(x.dtype)
    if work == torch.bool or any(x.size[dim] == 0 for dim in over):
        raise Unsupported("an extreme of truth values, or of nothing")
    found = reduce_over(
        build, node, as_type(like, work), x, over, kind, lambda value: cast(value, work)
    )
    return (
        found
        if work == like.dtype
        else finish_elementwise(build, node, like, found, lambda value: value)
    )


@lowers(aten.max.dim)
def max_dim(
    build: Builder, node: torch.fx.Node, x: View, dim: int, keepdim: bool = False
) -> tuple[View, View]:
    values, indices = node.meta["val"]
    return extreme(build, node, x, dim, "max", values), arg(build, node, x, dim, "argmax", indices)


@lowers(aten.min.dim)
def min_dim(
    build: Builder, node: torch.fx.Node, x: View, dim: int, keepdim: bool = False
) -> tuple[View, View]:
    values, indices = node.meta["val"]
    return extreme(build, node, x, dim, "min", values), arg(build, node, x, dim, "argmin", indices)


@lowers(aten.argmax.default)
def argmax(
    build: Builder, node: torch.fx.Node, x: View, dim: Any = None, keepdim: bool = False
) -> View:
    return arg(build, node, x, dim, "argmax", node.meta["val"])


@lowers(aten.argmin.default)
def argmin(
    build: Builder, node: torch.fx.Node, x: View, dim: Any = None, keepdim: bool = False
) -> View:
    return arg(build, node, x, dim, "argmin", node.meta["val"])


def arg(
    build: Builder, node: torch.fx.Node, x: View, dim: Any, kind: str, like: torch.Tensor
) -> View:
    over, work = dimensions(x, dim), computation_of(x.dtype)
    if work == torch.bool or any(x.size[number] == 0 for number in over):
        raise Unsupported("an extreme of truth values, or of nothing")
    return reduce_over(build, node, like, x, over, kind, lambda value: cast(value, work))


@lowers(aten.any.default, aten.any.dim, aten.any.dims)
def any_true(
    build: Builder, node: torch.fx.Node, x: View, dims: Any = None, keepdim: bool = False
) -> View:
    if node.meta["val"].dtype != torch.bool:
        raise Unsupported("any of bytes")
    return reduce_over(
        build,
        node,
        node.meta["val"],
        x,
        dimensions(x, dims),
        "any",
        lambda value: cast(value, torch.bool),
    )


@lowers(aten.all.default, aten.all.dim, aten.all.dims)
def all_true(
    build: Builder, node: torch.fx.Node, x: View, dims: Any = None, keepdim: bool = False
) -> View:
    like = node.meta["val"]
    if like.dtype != torch.bool:
        raise Unsupported("all of bytes")
    found = reduce_over(
        build,
        node,
        like,
        x,
        dimensions(x, dims),
        "any",
        lambda value: s("not", cast(value, torch.bool)),
    )
    return finish_elementwise(build, node, like, found, lambda value: s("not", value))


# --- variance and norms
# --------------------------------------------------------------------------------------------------


def moments(
    build: Builder,
    node: torch.fx.Node,
    x: View,
    over: Sequence[int],
    work: torch.dtype,
    shape: Sequence[Any] | None = None,
) -> tuple[View, View, Scalar]:
    """Mean and sum of squared distances to it, with `over` kept as dimensions of size 1, and the
    count. shape: x's, where it is not that of the node's first argument."""
    kept = build_shape(node, over, work, shape)
    count = position(product([x.size[dim] for dim in over]), work)
    found = reduce_over(build, node, kept, x, over, "sum", lambda value: cast(value, work))
    average = build.pointwise(node, kept, lambda at: s("div", build.read(found, at), count))
    inner = [x.size[dim] for dim in over]

    def body(outer: Sequence[Index], inside: Sequence[Index]) -> Scalar:
        place = list(outer)
        for dim, subscript in zip(over, inside, strict=True):
            place[dim] = subscript
        distance = s("sub", cast(build.read(x, place), work), build.read(average, outer))
        return s("mul", distance, distance)

    return average, build.reduction(node, kept, inner, body, "sum"), count


def build_shape(
    node: torch.fx.Node, over: Sequence[int], work: torch.dtype, shape: Sequence[Any] | None = None
) -> torch.Tensor:
    """A fake tensor of a shape, the node's first argument's where none is given, but with `over` of
    size 1."""
    like = node.meta["val"][0] if isinstance(node.meta["val"], (tuple, list)) else node.meta["val"]
    whole = node.args[0].meta["val"].shape if shape is None else shape  # type: ignore[union-attr]
    made: torch.Tensor = like.new_empty(
        [1 if number in over else size for number, size in enumerate(whole)], dtype=work
    )
    return made


@lowers(aten.var.correction)
def var(
    build: Builder,
    node: torch.fx.Node,
    x: View,
    dims: Any = None,
    *,
    correction: Any = None,
    keepdim: bool = False,
) -> View:
    return spread(build, node, x, dims, correction, node.meta["val"], lambda value: value)


@lowers(aten.std.correction)
def std(
    build: Builder,
    node: torch.fx.Node,
    x: View,
    dims: Any = None,
    *,
    correction: Any = None,
    keepdim: bool = False,
) -> View:
    return spread(
        build, node, x, dims, correction, node.meta["val"], lambda value: s("sqrt", value)
    )


@lowers(aten.var_mean.correction)
def var_mean(
    build: Builder,
    node: torch.fx.Node,
    x: View,
    dims: Any = None,
    *,
    correction: Any = None,
    keepdim: bool = False,
) -> tuple[View, View]:
    variance, average = node.meta["val"]
    over, work = dimensions(x, dims), computation_of(variance.dtype)
    found, squares, count = moments(build, node, x, over, work)
    first = squeeze_over(
        build,
        node,
        variance,
        squares,
        over,
        lambda value: s("div", value, freedom(count, correction)),
    )
    return first, squeeze_over(build, node, average, found, over, lambda value: value)


def spread(
    build: Builder,
    node: torch.fx.Node,
    x: View,
    dims: Any,
    correction: Any,
    like: torch.Tensor,
    last: Callable[[Scalar], Scalar],
) -> View:
    over, work = dimensions(x, dims), computation_of(like.dtype)
    _, squares, count = moments(build, node, x, over, work)
    return squeeze_over(
        build,
        node,
        like,
        squares,
        over,
        lambda value: last(s("div", value, freedom(count, correction))),
    )


def freedom(count: Scalar, correction: Any) -> Scalar:
    taken = const(1 if correction is None else correction, count.dtype)
    return s("maximum", s("sub", count, taken), const(0, count.dtype))


def squeeze_over(
    build: Builder,
    node: torch.fx.Node,
    like: torch.Tensor,
    x: View,
    over: Sequence[int],
    value: Callable[[Scalar], Scalar],
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
        return cast(value(build.read(x, place)), like.dtype)

    return build.pointwise(node, like, body)


@lowers(aten.linalg_vector_norm.default)
def vector_norm(
    build: Builder,
    node: torch.fx.Node,
    x: View,
    order: Any = 2,
    dims: Any = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> View:
    like, over = node.meta["val"], dimensions(x, dims)
    work = computation_of(like.dtype)
    square: dict[float, tuple[str, Callable[[Scalar], Scalar], Callable[[Scalar], Scalar]]] = {
        2: ("sum", lambda v: s("mul", v, v), lambda v: s("sqrt", v)),
        1: ("sum", lambda v: s("abs", v), lambda v: v),
        float("inf"): ("max", lambda v: s("abs", v), lambda v: v),
    }
    if order not in square or any(x.size[dim] == 0 for dim in over):
        raise Unsupported("a norm of this order")
    kind, before, behind = square[order]
    found = reduce_over(
        build, node, as_type(like, work), x, over, kind, lambda value: before(cast(value, work))
    )
    return finish_elementwise(build, node, like, found, behind)


# --- softmax
# --------------------------------------------------------------------------------------------------


@lowers(aten._softmax.default)
def softmax(build: Builder, node: torch.fx.Node, x: View, dim: int, half_to_float: bool) -> View:
    def last(shift_by_top: Scalar, sum: Scalar) -> Scalar:
        return s("div", s("exp", shift_by_top), sum)

    return shifted_by_max(build, node, x, dim, last)


@lowers(aten._log_softmax.default)
def log_softmax(
    build: Builder, node: torch.fx.Node, x: View, dim: int, half_to_float: bool
) -> View:
    def last(shift_by_top: Scalar, sum: Scalar) -> Scalar:
        return s("sub", shift_by_top, s("log", sum))

    return shifted_by_max(build, node, x, dim, last)


def shifted_by_max(
    build: Builder, node: torch.fx.Node, x: View, dim: int, last: Callable[[Scalar, Scalar], Scalar]
) -> View:
    like = node.meta["val"]
    over, work = dimensions(x, dim), computation_of(like.dtype)
    if not x.size:
        raise Unsupported("no dimension")
    kept = build_shape(node, over, work)
    top = reduce_over(build, node, kept, x, over, "max", lambda value: cast(value, work))

    def shift_by_top(at: Sequence[Index], row: Sequence[Index]) -> Scalar:
        return s("sub", cast(build.read(x, at), work), build.read(top, row))

    def exponential(outer: Sequence[Index], inner: Sequence[Index]) -> Scalar:
        place = list(outer)
        place[over[0]] = inner[0]
        return s("exp", shift_by_top(place, outer))

    sums = build.reduction(node, kept, [x.size[over[0]]], exponential, "sum")
    return build.pointwise(
        node, like, lambda at: cast(last(shift_by_top(at, at), build.read(sums, at)), like.dtype)
    )


@lowers(aten._softmax_backward_data.default)
def softmax_backward(
    build: Builder, node: torch.fx.Node, grad: View, y: View, dim: int, dtype: torch.dtype
) -> View:
    def last(g: Scalar, out: Scalar, sum: Scalar) -> Scalar:
        return s("mul", out, s("sub", g, sum))

    return softmax_gradient(build, node, grad, y, dim, lambda g, out: s("mul", g, out), last)


@lowers(aten._log_softmax_backward_data.default)
def log_softmax_backward(
    build: Builder, node: torch.fx.Node, grad: View, y: View, dim: int, dtype: torch.dtype
) -> View:
    def last(g: Scalar, out: Scalar, sum: Scalar) -> Scalar:
        return s("sub", g, s("mul", s("exp", out), sum))

    return softmax_gradient(build, node, grad, y, dim, lambda g, out: g, last)


def softmax_gradient(
    build: Builder,
    node: torch.fx.Node,
    grad: View,
    y: View,
    dim: int,
    summed: Callable[[Scalar, Scalar], Scalar],
    last: Callable[[Scalar, Scalar, Scalar], Scalar],
) -> View:
    like = node.meta["val"]
    over, work = dimensions(y, dim), computation_of(y.dtype)
    if not y.size:
        raise Unsupported("no dimension")
    kept = build_shape(node, over, work)

    def body(outer: Sequence[Index], inner: Sequence[Index]) -> Scalar:
        place = list(outer)
        place[over[0]] = inner[0]
        return summed(cast(build.read(grad, place), work), cast(build.read(y, place), work))

    sums = build.reduction(node, kept, [y.size[over[0]]], body, "sum")

    def result(at: Sequence[Index]) -> Scalar:
        values = cast(build.read(grad, at), work), cast(build.read(y, at), work)
        return cast(last(*values, build.read(sums, at)), like.dtype)

    return build.pointwise(node, like, result)
