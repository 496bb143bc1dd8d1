"""Elements chosen by position: gather, embedding, index, cat, pad, flip, and scattering a window
into a tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.fx

from ..bounds import reject_embedding, reject_gather, reject_index, reject_index_select
from ..ir.index import ZERO, Hole, Index, atom, claim_bounds, index, nonnegative
from ..ir.program import View
from ..ir.scalar import TRUE, Scalar, cast, const, load, position
from ..ir.scalar import scalar as s
from .build import Builder
from .registry import Unsupported, lowers

aten = torch.ops.aten

MOST_PARTS = 8  # operands of a cat, at most: each needs one more comparison for each element


def computed_index(build: Builder, positions: View, at: Sequence[Index], size: Index) -> Scalar:
    """A position read from a tensor; negative ones count from the end. Eager raises if it is out of
    range: `Builder.check_positions` does so."""
    value = cast(build.read(positions, at), torch.int64)
    return s("where", s("lt", value, 0), value + position(size), value)


def is_within(value: Scalar, low: Index | int, high: Index | int) -> Scalar:
    """low <= value < high."""
    lower, upper = position(index(low)), position(index(high))
    return s("and", s("ge", value, lower), s("lt", value, upper))


@lowers(aten.cat.default)
def cat(build: Builder, parts: Sequence[View], dim: int = 0) -> View:
    """Each element is read from the part within whose bounds its position is."""
    like = build.fake
    parts = [part for part in parts if len(part.size) == len(like.shape) and part.size[dim] != 0]
    if len(parts) > MOST_PARTS or not parts or any(part.dtype != like.dtype for part in parts):
        raise Unsupported("many parts, or of several types")
    dim = dim % len(like.shape)

    def body(at: Sequence[Index]) -> Scalar:
        value = const(0, like.dtype)
        start = ZERO
        starts = []
        for part in parts:
            starts.append(start)
            start = start + part.size[dim]
        for part, first in reversed(list(zip(parts, starts, strict=True))):
            here = is_within(position(at[dim]), first, first + part.size[dim])
            place = [*at[:dim], claim_bounds(at[dim] - first, part.size[dim]), *at[dim + 1 :]]
            read = read_masked(part, place, here)
            value = s("where", here, read, value)
        return value

    return build.pointwise(body)


@lowers(aten.constant_pad_nd.default)
def constant_pad(build: Builder, x: View, pads: Sequence[Any], value: float = 0) -> View:
    """x within its bounds, the value elsewhere. pads: before and after each dimension, the last
    dimension first."""
    rank = len(x.size)
    before = [
        build.sizes(pads[2 * (rank - 1 - dim)]) if 2 * (rank - 1 - dim) < len(pads) else ZERO
        for dim in range(rank)
    ]
    padded = [dim for dim in range(rank) if 2 * (rank - 1 - dim) < len(pads)]

    def body(at: Sequence[Index]) -> Scalar:
        here = TRUE
        for dim in padded:
            bound = is_within(position(at[dim] - before[dim]), 0, x.size[dim])
            here = bound if here is TRUE else s("and", here, bound)
        place = [
            claim_bounds(subscript - first, size)
            for subscript, first, size in zip(at, before, x.size, strict=True)
        ]
        read = read_masked(x, place, here)
        return s("where", here, read, value)

    return build.pointwise(body)


@lowers(aten.flip.default)
def flip(build: Builder, x: View, dims: Sequence[int]) -> View:
    turned = {dim % len(x.size) for dim in dims} if x.size else set()

    def body(at: Sequence[Index]) -> Scalar:
        return build.read(
            x,
            [
                x.size[dim] - 1 - subscript if dim in turned else subscript
                for dim, subscript in enumerate(at)
            ],
        )

    return build.pointwise(body)


@lowers(aten.roll.default)
def roll(build: Builder, x: View, shifts: Any, dims: Any = ()) -> View:
    """Reads each element from its place before the roll; shifts must be known at compile time."""
    if not dims or any(not isinstance(shift, int) for shift in shifts):
        raise Unsupported("a roll over everything")
    by: dict[int, int] = {}
    for shift, dim in zip(shifts, dims, strict=True):
        by[dim % len(x.size)] = by.get(dim % len(x.size), 0) + shift
    if any(x.size[dim].value in (None, 0) for dim in by):
        raise Unsupported("a roll over a size only known at run time")

    turned = [dim for dim, shift in by.items() if shift % (x.size[dim].value or 1)]

    def body(at: Sequence[Index], left: Sequence[int] = turned, mask: Scalar = TRUE) -> Scalar:
        """The element of which `at` is the position, along the dimensions `left` in the result,
        along the others in x; only where mask is true. The last elements of x and the others are
        read apart, as for a concatenation, so that the loop can be split."""
        if not left:
            return read_masked(x, at, mask)
        dim, size = left[0], x.size[left[0]]
        first = by[dim] % (size.value or 1)  # so many come from the end
        from_end, others = (
            [*at[:dim], claim_bounds(at[dim] + shift, size), *at[dim + 1 :]]
            for shift in (size - first, -first)
        )
        is_first = s("lt", position(at[dim]), position(index(first)))
        return s(
            "where",
            is_first,
            body(from_end, left[1:], s("and", mask, is_first)),
            body(others, left[1:], s("and", mask, s("not", is_first))),
        )

    return build.pointwise(body)


@lowers(aten.repeat.default)
def repeat(build: Builder, x: View, times: Sequence[Any]) -> View:
    extra = len(times) - len(x.size)

    def body(at: Sequence[Index]) -> Scalar:
        return build.read(
            x,
            [
                subscript % size if size != 0 else subscript
                for subscript, size in zip(at[extra:], x.size, strict=True)
            ],
        )

    return build.pointwise(body)


@lowers(aten.slice_scatter.default)
def slice_scatter(
    build: Builder,
    x: View,
    source: View,
    dim: int = 0,
    start: Any = None,
    end: Any = None,
    step: Any = 1,
) -> View:
    """x, with the elements of a slice replaced by those of source."""
    dim = dim % len(x.size)
    size, length = x.size[dim], source.size[dim]
    if not isinstance(step, int):
        raise Unsupported("a step only known at run time")
    if length == size and step == 1:
        return build.pointwise(lambda at: build.read(source, at))
    first = beginning(start, size)

    def body(at: Sequence[Index]) -> Scalar:
        here = is_within(position(at[dim]), first, first + (length - 1) * step + 1)
        offset = at[dim] - first
        if step != 1:
            here = s("and", here, s("eq", s("remainder", position(offset), step), 0))
        place = [*at[:dim], claim_bounds(offset // step, source.size[dim]), *at[dim + 1 :]]
        return s("where", here, read_masked(source, place, here), build.read(x, at))

    return build.pointwise(body)


def beginning(start: Any, size: Index) -> Index:
    """The start of a slice. A slice that starts beyond the end has no elements, so any start is
    right for it."""
    first = (
        index(0 if start is None else start)
        if start is None or isinstance(start, (int, Index))
        else None
    )
    if first is not None and first.value is not None and size.value is not None:
        return index(slice(first.value, None).indices(size.value)[0])
    if first is None or not nonnegative(first):
        raise Unsupported("a slice that begins where is only known at run time")
    return first


@lowers(aten.select_scatter.default)
def select_scatter(build: Builder, x: View, source: View, dim: int, chosen: Any) -> View:
    dim = dim % len(x.size)
    if not isinstance(chosen, int):
        raise Unsupported("a position only known at run time")
    where_ = x.size[dim] + chosen if chosen < 0 else index(chosen)

    def body(at: Sequence[Index]) -> Scalar:
        here = s("eq", position(at[dim]), position(where_))
        return s(
            "where", here, read_masked(source, [*at[:dim], *at[dim + 1 :]], here), build.read(x, at)
        )

    return build.pointwise(body)


def read_masked(view: View, place: Sequence[Index], mask: Scalar) -> Scalar:
    """An element read only where mask is true."""
    at = [
        ZERO if size == 1 else subscript for size, subscript in zip(view.size, place, strict=True)
    ]
    return load(view.buffer, view.at(at), view.dtype, mask=mask)


# --- positions from tensors ---


def read_row(x: View, place: Sequence[Index], dim: int, row: Scalar) -> Scalar:
    """x at `place`, with the computed `row` along dim, which must be in range."""
    at = [*place[:dim], atom(Hole(0)), *place[dim + 1 :]]
    return load(
        x.buffer, x.at(at), x.dtype, subscripts=(row,), check=is_within(row, 0, x.size[dim])
    )


@lowers(aten.embedding.default)
def embedding(
    build: Builder,
    weight: View,
    positions: View,
    padding_idx: Any = -1,
    scale: bool = False,
    sparse: bool = False,
) -> View:
    """The rows of a table at some positions."""
    refuse_unread(build, weight)
    rank = len(positions.size)
    positions = build.check_positions(
        positions, weight.size, 0, wraps=False, reject=reject_embedding
    )

    def body(at: Sequence[Index]) -> Scalar:
        row = cast(build.read(positions, at[:rank]), torch.int64)
        return read_row(weight, [ZERO, at[rank]], 0, row)

    return build.pointwise(body)


@lowers(aten.gather.default)
def gather(
    build: Builder, x: View, dim: int, positions: View, *, sparse_grad: bool = False
) -> View:
    refuse_unread(build, x)
    dim = dim % len(x.size)
    positions = build.check_positions(positions, x.size, dim, wraps=False, reject=reject_gather)

    def body(at: Sequence[Index]) -> Scalar:
        row = cast(build.read(positions, at), torch.int64)
        return read_row(x, [*at], dim, row)

    return build.pointwise(body)


@lowers(aten.index_select.default)
def index_select(build: Builder, x: View, dim: int, positions: View) -> View:
    refuse_unread(build, x)
    dim = dim % len(x.size)
    positions = build.check_positions(
        positions, x.size, dim, wraps=False, reject=reject_index_select
    )

    def body(at: Sequence[Index]) -> Scalar:
        row = cast(build.read(positions, [at[dim]] if positions.size else []), torch.int64)
        return read_row(x, [*at], dim, row)

    return build.pointwise(body)


@lowers(aten.index.Tensor)
def index_tensor(build: Builder, x: View, positions: Sequence[View | None]) -> View:
    refuse_unread(build, x)
    chosen_by = positions_by_dimension(build, x, positions)
    first, rank = min(chosen_by), max(len(item.size) for item in chosen_by.values())

    def body(at: Sequence[Index]) -> Scalar:
        place, rows, mask = element_at(build, x, chosen_by, at[:first], at[first : first + rank])
        place += at[first + rank :]
        return load(x.buffer, x.at(place), x.dtype, subscripts=rows, check=mask)

    return build.pointwise(body)


def positions_by_dimension(
    build: Builder, x: View, positions: Sequence[View | None]
) -> dict[int, View]:
    """The tensors that index `x`, by the dimension that each indexes."""
    chosen = {number: item for number, item in enumerate(positions) if item is not None}
    if list(chosen) != list(range(min(chosen), max(chosen) + 1)):
        raise Unsupported("positions with dimensions in between")
    return {
        dim: build.check_positions(item, x.size, dim, wraps=True, reject=reject_index)
        for dim, item in chosen.items()
    }


def element_at(
    build: Builder,
    x: View,
    chosen_by: Mapping[int, View],
    before: Sequence[Index],
    common: Sequence[Index],
) -> tuple[list[Index], tuple[Scalar, ...], Scalar]:
    """Subscripts of the leading dimensions of an element of `x`: `before`, then computed ones; the
    computed ones' values, and whether they are in range. common: a point of the positions' common
    shape."""
    place, rows, mask = [*before], [], TRUE
    for hole, (dim, item) in enumerate(chosen_by.items()):
        row = computed_index(build, item, common[len(common) - len(item.size) :], x.size[dim])
        bound = is_within(row, 0, x.size[dim])
        mask = bound if mask is TRUE else s("and", mask, bound)
        rows.append(row)
        place.append(atom(Hole(hole)))
    return place, tuple(rows), mask


def refuse_unread(build: Builder, x: View) -> None:
    """Raises Unsupported where no kernel reads the elements: on the CPU torch's operators are as
    fast where nothing is fused with them."""
    if not x.size or x.device.type == "cpu" and not build.is_read_by_kernels(build.node):
        raise Unsupported("no kernel reads the elements")
