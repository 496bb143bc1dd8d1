"""Pooling over images by small windows: the largest element and its position, the mean, and their
gradients.

A result's element reads its window; a gradient's element reads the results whose windows it is in,
so that no two threads add at one place. On the CPU only means of images whose rows lie in one piece
are computed so: for the others torch's operators are faster.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

import torch

from ....records import record
from ..ir.index import ONE, Index, claim_bounds, index, nonnegative
from ..ir.program import View
from ..ir.scalar import TRUE, Scalar, cast, const, position
from ..ir.scalar import scalar as s
from .build import Builder
from .indexing import read_masked
from .pointwise import computation_of
from .registry import Unsupported, lowers

aten = torch.ops.aten
LARGEST_WINDOW = 25  # elements: a kernel reads all of them one after the other
Point = Sequence[Index]
Pair = tuple[int, int]


@record
class Windows:
    """The windows of a pooling along height and width. images: sizes of the images, results: sizes
    of the results."""

    size: Pair
    stride: Pair
    padding: Pair
    images: tuple[Index, ...]
    results: tuple[Index, ...]

    def starts(self, at: Point) -> tuple[Index, ...]:
        """Where the window of the result at `at` starts, which may be in the padding."""
        every = zip(at[-2:], self.stride, self.padding, strict=True)
        return tuple(subscript * step - before for subscript, step, before in every)

    def elements(self, at: Point) -> Iterator[tuple[list[Index], Scalar]]:
        """The places of the elements of the window of the result at `at`, row by row, each with
        whether the image has it."""
        for offsets in itertools.product(*map(range, self.size)):
            place = [start + offset for start, offset in zip(self.starts(at), offsets, strict=True)]
            yield within(at, place, self.images)

    def results_with(self, at: Point) -> Iterator[tuple[list[Index], Scalar]]:
        """The places of the results that have the element at `at` in their windows, row by row;
        each with whether there is such a result, as most elements are in fewer than the most
        windows."""
        overlaps = [-(-size // step) for size, step in zip(self.size, self.stride, strict=True)]
        for before in itertools.product(*(range(count - 1, -1, -1) for count in overlaps)):
            place, reached = [], TRUE
            every = zip(at[-2:], self.size, self.stride, self.padding, before, strict=True)
            for subscript, size, step, pad, back in every:
                place.append((subscript + pad) // step - back)
                offset = (subscript + pad) % step + back * step  # of the element in the window
                reached = both(reached, is_below(offset, index(size)))
            result, exists = within(at, place, self.results)
            yield result, both(reached, exists)

    def are_inside(self) -> bool:
        """Whether no window has an element outside the image."""
        every = zip(self.results, self.size, self.stride, self.images, strict=True)
        return self.padding == (0, 0) and all(
            nonnegative(image - (result - 1) * step - size) for result, size, step, image in every
        )


def within(at: Point, place: Sequence[Index], sizes: Sequence[Index]) -> tuple[list[Index], Scalar]:
    """`at` with a place along height and width, and whether that is within these sizes."""
    mask, own = TRUE, [*at[:-2]]
    for subscript, size in zip(place, sizes, strict=True):
        if not is_never_negative(subscript):
            mask = both(mask, s("ge", position(subscript, torch.int32), 0))
        mask = both(mask, is_below(subscript, size))
        own.append(claim_bounds(subscript, size))
    return own, mask


def is_never_negative(number: Index) -> bool:
    bounds = number.bounds()
    return bounds is not None and nonnegative(bounds[0])


def is_below(number: Index, limit: Index) -> Scalar:
    bounds = number.bounds()
    if bounds is not None and nonnegative(limit - 1 - bounds[1]):
        return TRUE
    return s("lt", position(number, torch.int32), position(limit, torch.int32))


def both(left: Scalar, right: Scalar) -> Scalar:
    return right if left is TRUE else left if right is TRUE else s("and", left, right)


def windows(images: View, results: Sequence[Index], *numbers: Sequence[int]) -> Windows:
    """numbers: the size, stride and padding that an operator gets. Raises Unsupported for large
    windows and for integers."""
    size, stride, padding = (pair(number) for number in numbers)
    if not images.dtype.is_floating_point:
        raise Unsupported("of integers")
    if size[0] * size[1] > LARGEST_WINDOW:
        raise Unsupported("large windows")
    return Windows(size, stride or size, padding, images.size[-2:], tuple(results[-2:]))


def pair(numbers: Sequence[int]) -> Pair:
    """The numbers for height and width; one is for both. Empty for none."""
    return (*numbers, *numbers)[:2]  # type: ignore[return-value]


@lowers(aten.max_pool2d_with_indices.default)
def max_pool(
    build: Builder,
    x: View,
    size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> tuple[View, View]:
    """The largest elements, and their positions in the image counted row by row: that of the first
    of equal elements, and of the last NaN."""
    values, places = build.fake
    refuse_cpu_and_gaps(x, dilation)
    inside = windows(x, build.shape(values.shape), size, stride, padding)
    work = computation_of(x.dtype)

    def largest(at: Point) -> tuple[Scalar, Scalar]:
        value = const(float("-inf"), work)
        place = flat_position([first_in_image(start) for start in inside.starts(at)], inside.images)
        for element, mask in inside.elements(at):
            read = s("where", mask, cast(read_masked(x, element, mask), work), float("-inf"))
            better = s("or", s("gt", read, value), s("isnan", read))
            here = [position(subscript, torch.int32) for subscript in element[-2:]]
            value = s("where", better, read, value)
            place = s("where", better, flat_position(here, inside.images), place)
        return value, place

    return (
        build.pointwise(lambda at: largest(at)[0], values),
        build.pointwise(lambda at: largest(at)[1], places),
    )


def refuse_cpu_and_gaps(x: View, dilation: Sequence[int]) -> None:
    if x.device.type == "cpu" or set(dilation) != {1}:
        raise Unsupported("a largest element on the CPU, or in windows with gaps")


def first_in_image(start: Index) -> Scalar:
    """The first row or column of a window that the image has."""
    number = position(start, torch.int32)
    return number if is_never_negative(start) else s("maximum", number, 0)


def flat_position(place: Sequence[Scalar], images: Sequence[Index]) -> Scalar:
    row, column = place
    return row * position(images[1], torch.int32) + column


@lowers(aten.max_pool2d_with_indices_backward.default)
def max_pool_gradient(
    build: Builder,
    gradient: View,
    x: View,
    size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    places: View,
) -> View:
    """Each element's gradient: the sum of the gradients of those results that took their value from
    this element."""
    refuse_cpu_and_gaps(x, dilation)
    if torch.are_deterministic_algorithms_enabled():
        raise Unsupported("eager raises")
    inside = windows(x, gradient.size, size, stride, padding)

    def body(at: Point) -> Scalar:
        own = flat_position([position(one, torch.int32) for one in at[-2:]], inside.images)
        taken = (
            (result, both(mask, s("eq", cast(read_masked(places, result, mask), torch.int32), own)))
            for result, mask in inside.results_with(at)
        )
        return sum_at(gradient, taken)

    return build.pointwise(body)


def sum_at(view: View, places: Iterable[tuple[list[Index], Scalar]], divisor: int = 1) -> Scalar:
    """The sum of the elements at those places whose masks are true, each divided."""
    total = const(0, computation_of(view.dtype))
    for place, mask in places:
        read = cast(read_masked(view, place, mask), total.dtype)
        term = read if divisor == 1 else read / const(divisor, total.dtype)
        total = total + s("where", mask, term, 0)
    return total


@lowers(aten.avg_pool2d.default)
def avg_pool(
    build: Builder,
    x: View,
    size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> View:
    refuse_channels_last_on_cpu(x)
    inside = windows(x, build.shape(build.fake.shape), size, stride, padding)
    count = divisor(inside, ceil_mode, count_include_pad, divisor_override)

    def body(at: Point) -> Scalar:
        total = sum_at(x, inside.elements(at))
        return total / const(count, total.dtype)

    return build.pointwise(body)


def refuse_channels_last_on_cpu(x: View) -> None:
    """torch's operators are faster for these."""
    if x.device.type == "cpu" and x.stride[-1] != ONE:
        raise Unsupported("channels-last on the CPU")


def divisor(inside: Windows, ceil_mode: bool, with_padding: bool, override: int | None) -> int:
    """What the sum of a window is divided by. Raises Unsupported where that differs."""
    if override is None and not (inside.are_inside() or with_padding and not ceil_mode):
        raise Unsupported("windows of different sizes")
    return override or inside.size[0] * inside.size[1]


@lowers(aten.avg_pool2d_backward.default)
def avg_pool_gradient(
    build: Builder,
    gradient: View,
    x: View,
    size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> View:
    refuse_channels_last_on_cpu(x)
    inside = windows(x, gradient.size, size, stride, padding)
    count = divisor(inside, ceil_mode, count_include_pad, divisor_override)

    return build.pointwise(lambda at: sum_at(gradient, inside.results_with(at), count))
