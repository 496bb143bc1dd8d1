"""The sizes and strides of an elementwise operator's result, for operands of plain sizes, as
torch's TensorIterator lays it out.

torch's own fake operators find this out in Python, for a millisecond, and import TorchDynamo.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

Layout = tuple[tuple[int, ...], tuple[int, ...]]  # sizes and strides
CHANNELS_LAST = (1, 3, 2, 0)  # dimensions from the innermost to the outermost


def result_layout(operands: Sequence[torch.Tensor], with_number: bool) -> Layout | None:
    """The sizes and strides of the result. None where a size or stride is no plain number or there
    is no element, and where the operands do not broadcast. with_number: a plain number is an
    operand, too, which torch makes a tensor without dimensions."""
    layouts = [(tuple(one.shape), tuple(one.stride())) for one in operands]
    if any(
        type(number) is not int or number < 0 for pair in layouts for one in pair for number in one
    ):
        return None
    sizes = broadcast([sizes for sizes, _ in layouts])
    if sizes is None or 0 in sizes:
        return None
    alike = all(one == sizes for one, _ in layouts) and not (with_number and sizes)
    strides = common_strides(sizes, [one for _, one in layouts]) if alike else None
    if strides is None:
        found = [strides_over(one, own, sizes) for one, own in layouts]
        strides = strides_in(innermost_first(sizes, found), sizes)
    return sizes, strides


def broadcast(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
    """The sizes that all broadcast to; None where they do not."""
    length = max(map(len, shapes))
    padded = [(1,) * (length - len(shape)) + shape for shape in shapes]
    full = tuple(
        next((size for size in column if size != 1), 1) for column in zip(*padded, strict=True)
    )
    fits = all(
        size in (1, whole) for shape in padded for size, whole in zip(shape, full, strict=True)
    )
    return full if fits else None


def common_strides(
    sizes: tuple[int, ...], strides: Sequence[tuple[int, ...]]
) -> tuple[int, ...] | None:
    """The strides where all operands have the same sizes, and are laid out alike without gaps."""
    backwards = tuple(reversed(range(len(sizes))))
    if all(is_dense_in_order(sizes, one, backwards) for one in strides):
        return strides_in(backwards, sizes)
    if len(sizes) == 4 and all(is_dense_in_order(sizes, one, CHANNELS_LAST) for one in strides):
        return strides_in(CHANNELS_LAST, sizes)
    first = strides[0]
    order = tuple(sorted(range(len(sizes)), key=lambda dim: (first[dim], sizes[dim])))
    if all(one == first for one in strides) and is_dense_in_order(sizes, first, order):
        return first
    return None


def is_dense_in_order(
    sizes: tuple[int, ...], strides: tuple[int, ...], order: tuple[int, ...]
) -> bool:
    """Whether the dimensions of more than one element fill their memory in an order."""
    expected = strides_in(order, sizes)
    return all(sizes[dim] == 1 or strides[dim] == expected[dim] for dim in order)


def strides_in(order: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The strides without gaps, dimensions given from the innermost to the outermost."""
    strides, step = [0] * len(sizes), 1
    for dim in order:
        strides[dim] = step
        step *= sizes[dim]
    return tuple(strides)


def strides_over(
    sizes: tuple[int, ...], strides: tuple[int, ...], full: tuple[int, ...]
) -> tuple[int, ...]:
    """An operand's strides over the full sizes: 0 where it is repeated."""
    missing = len(full) - len(sizes)
    pairs = zip(sizes, strides, full[missing:], strict=True)
    return (0,) * missing + tuple(
        0 if size == 1 and whole != 1 else stride for size, stride, whole in pairs
    )


def innermost_first(sizes: tuple[int, ...], strides: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The dimensions from the innermost to the outermost: TensorIterator::reorder_dimensions, an
    insertion sort whose comparison leaves pairs of dimensions undecided."""
    order = list(reversed(range(len(sizes))))
    for start in range(1, len(order)):
        at = start
        for before in reversed(range(start)):
            compared = compare(order[before], order[at], sizes, strides)
            if compared > 0:
                order[before], order[at] = order[at], order[before]
                at = before
            elif compared < 0:
                break
    return tuple(order)


def compare(
    one: int, other: int, sizes: tuple[int, ...], strides: Sequence[tuple[int, ...]]
) -> int:
    """Positive where dimension `one` belongs outside of `other`, negative inside, 0 undecided."""
    for own in strides:
        if own[one] == 0 or own[other] == 0:
            continue
        if own[one] != own[other]:
            return own[one] - own[other]
        if sizes[one] > sizes[other]:
            return 1
    return 0
