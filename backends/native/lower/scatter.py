"""Values stored at computed positions: index_add, scatter_add, scatter_reduce, index_put, scatter
of a number, and the gradient of an embedding. They become a copy of the first operand and a kernel
that combines the values with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.fx

from ..bounds import reject_gather, reject_index_add
from ..ir.index import ONE, ZERO, Hole, Index, atom
from ..ir.program import Kernel, Store, View, loops
from ..ir.scalar import TRUE, Scalar, cast, const, load, scatter
from ..ir.scalar import scalar as s
from .build import Builder
from .indexing import element_at, is_within, positions_by_dimension
from .registry import Unsupported, lowers

aten = torch.ops.aten

KINDS = {"sum": "sum", "prod": "prod", "amax": "max", "amin": "min"}  # of scatter_reduce
GPU_DTYPES = (torch.float32, torch.float64, torch.int32, torch.int64)  # with atomic additions
Point = Sequence[Index]
# of a point: subscripts of the element, the computed ones, and whether they are in range
Target = Callable[[Point], tuple[list[Index], tuple[Scalar, ...], Scalar]]


def scatter_onto(
    build: Builder,
    kind: str,
    start: Callable[[Point], Scalar],
    size: Sequence[Index],
    target: Target,
    value: Callable[[Point], Scalar],
    rows: Index,
    mask: Callable[[Point], Scalar] = lambda at: TRUE,
) -> View:
    """A tensor that holds start(point), combined with value(point) for each point below `size` at
    the element that `target` gives. rows: the bound of the first computed subscript. mask: which
    points count."""
    like = build.fake
    refuse_kind(like, kind)
    before = build.pointwise(start)
    after = build.window(build.new_buffer(build.node.name, like))
    outer = loops([extent for extent in size if extent != ONE], "p")
    following = iter(outer)
    at = [ZERO if extent == ONE else atom(next(following)) for extent in size]
    subscripts, computed, check = target(at)
    place = after.at(
        ZERO if extent == ONE and not is_computed(subscript) else subscript
        for subscript, extent in zip(subscripts, after.size, strict=True)
    )
    old = load(before.buffer, place, like.dtype, subscripts=computed, mask=mask(at), check=check)
    new = cast(value(at), like.dtype)
    store = Store(after.buffer, place, scatter(kind, old, new, computed[0], rows))
    build.program.steps.append(Kernel(outer, (), (store,), (str(build.node.target),)))
    return after


def is_computed(subscript: Index) -> bool:
    return any(isinstance(item, Hole) for item in subscript.atoms())


def refuse_kind(like: torch.Tensor, kind: str) -> None:
    """Raises Unsupported for what torch does better, or must do: halves are added up in float."""
    if like.dtype in (torch.bool, torch.float16, torch.bfloat16):
        raise Unsupported("a scatter of this type")
    if like.device.type != "cpu" and (
        kind not in ("sum", "set")
        or like.dtype not in GPU_DTYPES
        or torch.are_deterministic_algorithms_enabled()
    ):
        raise Unsupported("a scatter without atomic operations")


def along(build: Builder, x: View, dim: int, row: Callable[[Point], Scalar]) -> Target:
    """The element at a point, but with a computed subscript along `dim`."""

    def target(at: Point) -> tuple[list[Index], tuple[Scalar, ...], Scalar]:
        computed = cast(row(at), torch.int64)
        place = [*at[:dim], atom(Hole(0)), *at[dim + 1 :]]
        return place, (computed,), is_within(computed, 0, x.size[dim])

    return target


@lowers(aten.index_add.default)
def index_add(
    build: Builder, x: View, dim: int, positions: View, source: View, *, alpha: Any = 1
) -> View:
    """x, with the rows of source added to its rows at some positions."""
    if not x.size or not source.size or not isinstance(alpha, (int, float)):
        raise Unsupported("no dimension")
    dim, like = dim % len(x.size), build.fake
    if [*x.size[:dim], *x.size[dim + 1 :]] != [*source.size[:dim], *source.size[dim + 1 :]]:
        raise Unsupported("sizes that torch refuses")
    positions = build.check_positions(positions, x.size, dim, wraps=False, reject=reject_index_add)

    def value(at: Point) -> Scalar:
        read = cast(build.read(source, at), like.dtype)
        return read if alpha == 1 else read * alpha

    target = along(
        build, x, dim, lambda at: build.read(positions, [at[dim]] if positions.size else [])
    )
    return scatter_onto(
        build, "sum", lambda at: build.read(x, at), source.size, target, value, x.size[dim]
    )


def scatter_along(
    build: Builder, kind: str, x: View, dim: int, positions: View, value: Callable[[Point], Scalar]
) -> View:
    """A scatter whose positions have a dimension for each of x's."""
    if not x.size or not positions.size:
        raise Unsupported("no dimension")
    dim = dim % len(x.size)
    positions = build.check_positions(positions, x.size, dim, wraps=False, reject=reject_gather)
    target = along(build, x, dim, lambda at: build.read(positions, at))
    return scatter_onto(
        build, kind, lambda at: build.read(x, at), positions.size, target, value, x.size[dim]
    )


@lowers(aten.scatter_add.default)
def scatter_add(build: Builder, x: View, dim: int, positions: View, source: View) -> View:
    return scatter_along(build, "sum", x, dim, positions, lambda at: element(source, at))


@lowers(aten.scatter_reduce.two)
def scatter_reduce(
    build: Builder,
    x: View,
    dim: int,
    positions: View,
    source: View,
    reduce: str,
    *,
    include_self: bool = True,
) -> View:
    if reduce not in KINDS or not include_self:
        raise Unsupported("a mean, or without the first operand")
    return scatter_along(build, KINDS[reduce], x, dim, positions, lambda at: element(source, at))


@lowers(aten.scatter.value)
def scatter_number(build: Builder, x: View, dim: int, positions: View, value: Any) -> View:
    if isinstance(value, float) and not x.dtype.is_floating_point:
        raise Unsupported("a number of another kind")
    number = const(value, x.dtype)
    return scatter_along(build, "set", x, dim, positions, lambda at: number)


def element(source: View, at: Point) -> Scalar:
    """An element of a tensor that may be larger than the positions."""
    return load(source.buffer, source.at(at), source.dtype)


@lowers(aten.index_put.default, aten._unsafe_index_put.default)
def index_put(
    build: Builder,
    x: View,
    positions: Sequence[View | None],
    values: View,
    accumulate: bool = False,
) -> View:
    """x, with values added to its elements at some positions. (Without accumulate the operator is
    called.)"""
    if not accumulate or not x.size:
        raise Unsupported("which of several values stays is torch's to decide")
    chosen_by = positions_by_dimension(build, x, positions)
    first, rank = min(chosen_by), max(len(item.size) for item in chosen_by.values())
    common = broadcast_sizes(item.size for item in chosen_by.values())
    size = [*x.size[:first], *common, *x.size[max(chosen_by) + 1 :]]

    def target(at: Point) -> tuple[list[Index], tuple[Scalar, ...], Scalar]:
        place, rows, check = element_at(build, x, chosen_by, at[:first], at[first : first + rank])
        return [*place, *at[first + rank :]], rows, check

    return scatter_onto(
        build,
        "sum",
        lambda at: build.read(x, at),
        size,
        target,
        lambda at: build.read(values, at),
        x.size[first],
    )


def broadcast_sizes(every: Any) -> list[Index]:
    """The common shape of tensors."""
    shapes = [[*size] for size in every]
    rank = max(map(len, shapes))
    padded = [[ONE] * (rank - len(size)) + size for size in shapes]
    return [
        next((size for size in sizes if size != ONE), ONE) for sizes in zip(*padded, strict=True)
    ]


@lowers(aten.embedding_dense_backward.default)
def embedding_gradient(
    build: Builder, grad: View, positions: View, count: Any, padding: Any, scale_by_frequency: bool
) -> View:
    """The gradient of a table of rows: each row's gradients are added up."""
    if scale_by_frequency or positions.dtype not in (torch.int64, torch.int32):
        raise Unsupported("gradients divided by how often a row is read")
    like, rank = build.fake, len(positions.size)
    table = replace(grad, size=build.shape(like.shape), stride=build.shape(like.stride()))

    def row(at: Point) -> Scalar:
        return cast(build.read(positions, at[:rank]), torch.int64)

    def target(at: Point) -> tuple[list[Index], tuple[Scalar, ...], Scalar]:
        computed = row(at)
        return [atom(Hole(0)), at[rank]], (computed,), is_within(computed, 0, table.size[0])

    return scatter_onto(
        build,
        "sum",
        lambda at: const(0, like.dtype),
        grad.size,
        target,
        lambda at: build.read(grad, at),
        table.size[0],
        lambda at: s("ne", row(at), padding),
    )
