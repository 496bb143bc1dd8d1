"""Fake results of convolutions by rule. torch chooses the library that would run a convolution, and
compares symbols for it, which takes 20 to 50 ms; the strides that it finds are written with
`Max(1, size)`, so that no other rule takes the result for contiguous.

On the CPU, the results of all libraries are contiguous if the operands are, and have channels last
if the input has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .fake_rules import FakeRules, rule
from .operator_rules import FULL
from .size_products import Size, have_same_sizes, is_same_size

aten = torch.ops.aten
CPU = torch.device("cpu")


@rule(aten.convolution.default)
def convolution(
    fakes: FakeRules,
    x: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: Any,
) -> Any:
    """The result of an ordinary convolution of known channels; channels-last if an operand is."""
    steps = (stride, padding, dilation)
    if transposed or not is_convolution(fakes, x, weight, groups, *steps):
        return None
    if bias is not None and not (
        fakes.is_known(weight, bias) and bias.dim() == 1 and bias.shape[0] == weight.shape[0]
    ):
        return None
    sizes = sizes_in_space(fakes, x.shape[2:], weight.shape[2:], *steps)
    if sizes is None:
        return None
    make = fakes.make_channels_last if has_channels_last(fakes, x) else fakes.make
    return make(x, [x.shape[0], weight.shape[0], *sizes])


@rule(aten.convolution_backward.default)
def convolution_backward(
    fakes: FakeRules,
    grad: Any,
    x: Any,
    weight: Any,
    bias_sizes: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: Any,
    wanted: Sequence[bool],
) -> Any:
    """The gradients of the input, the weight and the bias, as far as they are wanted."""
    steps = (stride, padding, dilation)
    if transposed or not fakes.is_known(x) or not is_convolution(fakes, x, weight, groups, *steps):
        return None
    sizes = sizes_in_space(fakes, x.shape[2:], weight.shape[2:], *steps)
    if sizes is None or not (fakes.is_strided(grad) and grad.dtype == x.dtype):
        return None
    if grad.fake_device != x.fake_device or not have_same_sizes(
        grad.shape, [x.shape[0], weight.shape[0], *sizes]
    ):
        return None
    shapes = (x.shape, weight.shape, weight.shape[:1])
    return tuple(
        fakes.make(x, [*shape]) if is_wanted else None
        for shape, is_wanted in zip(shapes, wanted, strict=True)
    )


def is_convolution(
    fakes: FakeRules, x: Any, weight: Any, groups: Any, *steps: Sequence[Any]
) -> bool:
    """Whether these are operands on the CPU that fit, of one to three dimensions in space. The
    weight is contiguous."""
    return (
        fakes.is_known(weight)
        and fakes.is_strided(x)
        and (fakes.is_contiguous(x) or has_channels_last(fakes, x) or is_single_image(x))
        and x.dtype == weight.dtype in FULL
        and x.fake_device == weight.fake_device == CPU
        and 3 <= x.dim() == weight.dim() <= 5
        and all(type(size) is int and size > 0 for size in (*weight.shape, groups))
        and weight.shape[0] % groups == 0
        and is_same_size(x.shape[1], weight.shape[1] * groups)
        and (fakes.are_nonnegative(x.shape) or (all_ints(x.shape) and fakes.is_contiguous(x)))
        and all(size != 0 for size in x.shape if type(size) is int)
        and all(len(step) in (1, x.dim() - 2) and all_ints(step) for step in steps)
    )


def has_channels_last(fakes: FakeRules, x: Any) -> bool:
    """Whether a convolution of x has a result with channels last."""
    return (
        x.dtype == torch.float32
        and fakes.is_channels_last(x)
        and not fakes.is_contiguous(x)
        and type(x.shape[1]) is int
        and x.shape[1] > 1
    )


def is_single_image(x: Any) -> bool:
    """Whether x is one image with channels last, whose stride between images is less than the
    image, as a sequence turned into an image has it. torch then takes x for contiguous. If the
    image's size is a symbol, comparing it adds a guard, as in torch's operator."""
    if x.dim() != 4 or type(x.shape[0]) is not int or x.shape[0] != 1:
        return False
    first, *strides = x.stride()
    _, channels, height, width = x.shape
    row = width * channels
    return (
        type(first) is type(channels) is int
        and channels > 1
        and have_same_sizes(strides, [1, row, channels])
        and bool(first < row * height)
    )


def all_ints(numbers: Sequence[Any]) -> bool:
    return all(type(number) is int for number in numbers)


def sizes_in_space(
    fakes: FakeRules,
    sizes: Sequence[Size],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> list[Size] | None:
    """The sizes of a convolution's result without batch and channels; None where the kernel does
    not fit into the padded input in this call, which is an error that torch words. Where that
    depends on a symbol, asking it adds a guard, as torch's operator would."""
    every = [
        numbers if len(numbers) == len(sizes) else [*numbers] * len(sizes)
        for numbers in (stride, padding, dilation)
    ]
    found: list[Size] = []
    for size, width, step, pad, gap in zip(sizes, kernel, *every, strict=True):
        if step <= 0 or pad < 0 or gap <= 0:
            return None
        left = size + (2 * pad - gap * (width - 1) - 1)
        if not (fakes.are_nonnegative([left]) if isinstance(left, torch.SymInt) else left >= 0):
            if not left >= 0:
                return None
        found.append(left // step + 1)
    return found
