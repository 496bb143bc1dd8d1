"""Layer, group, batch and RMS norm, as eager computes them: statistics in float32 for half
precision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.fx

from ..ir.index import ZERO, Index, index
from ..ir.program import View
from ..ir.scalar import Scalar, cast, const
from ..ir.scalar import scalar as s
from .build import Builder
from .pointwise import computation_of
from .reductions import moments, squeeze_over
from .registry import Unsupported, lowers

aten = torch.ops.aten


@lowers(aten.native_layer_norm.default)
def layer_norm(
    build: Builder,
    x: View,
    shape: Sequence[Any],
    weight: View | None,
    bias: View | None,
    eps: float,
) -> tuple[View, View, View]:
    """Normalizes over the last dimensions. Returns also the mean and 1 / the standard deviation,
    which the gradient needs."""
    like, mean_like, rstd_like = build.fake
    rank = len(x.size)
    over, work = list(range(rank - len(shape), rank)), computation_of(x.dtype)
    average, squares, count = moments(build, x, over, work)
    inverse = squeeze_over(
        build, rstd_like, squares, over, lambda value: _inverse(value, count, eps)
    )

    def body(at: Sequence[Index]) -> Scalar:
        value = cast(build.read(x, at), work) - build.read(average, at)
        value = value * cast(build.read(inverse, at), work)
        return _affine(build, value, weight, bias, at[rank - len(shape) :], work)

    return (build.pointwise(body, like), squeeze_over(build, mean_like, average, over), inverse)


def _inverse(squares: Scalar, count: Scalar, eps: float) -> Scalar:
    return s("rsqrt", squares / count + eps)


def _affine(
    build: Builder,
    value: Scalar,
    weight: View | None,
    bias: View | None,
    at: Sequence[Index],
    work: torch.dtype,
) -> Scalar:
    if weight is not None:
        value = value * cast(build.read(weight, at), work)
    return value if bias is None else value + cast(build.read(bias, at), work)


@lowers(aten.native_group_norm.default)
def group_norm(
    build: Builder,
    x: View,
    weight: View | None,
    bias: View | None,
    batch: Any,
    channels: Any,
    pixels: Any,
    groups: int,
    eps: float,
) -> tuple[View, View, View]:
    """Normalizes over groups of channels, as `layer_norm` does over dimensions."""
    like, mean_like, rstd_like = build.fake
    if x.size[1].value is None or x.size[1].value % groups:
        raise Unsupported("channels of a size only known at run time")
    work, width = computation_of(x.dtype), x.size[1].value // groups
    inner = [
        (x.stride[1], index(width), width),
        *zip(x.stride[2:], x.size[2:], like.shape[2:], strict=True),
    ]
    if all(stride.value is not None for stride, _, _ in inner):  # neighbours in memory come last
        inner.sort(key=lambda dim: dim[0].value or 0, reverse=True)
    in_groups = replace(
        x,
        size=(x.size[0], index(groups), *(size for _, size, _ in inner)),
        stride=(x.stride[0], x.stride[1] * width, *(stride for stride, _, _ in inner)),
    )
    over = range(2, len(inner) + 2)
    average, squares, count = moments(
        build, in_groups, over, work, (like.shape[0], groups, *(extent for _, _, extent in inner))
    )
    mean = squeeze_over(build, mean_like, average, over)
    inverse = squeeze_over(
        build, rstd_like, squares, over, lambda value: _inverse(value, count, eps)
    )

    def body(at: Sequence[Index]) -> Scalar:
        group = [at[0], at[1] // width]
        value = cast(build.read(x, at), work) - build.read(average, [*group, *[ZERO] * len(over)])
        value = value * cast(build.read(inverse, group), work)
        return _affine(build, value, weight, bias, [at[1]], work)

    return build.pointwise(body, like), mean, inverse


@lowers(aten._native_batch_norm_legit_no_training.default)
def batch_norm_inference(
    build: Builder,
    x: View,
    weight: View | None,
    bias: View | None,
    mean: View,
    var: View,
    momentum: float,
    eps: float,
) -> tuple[Any, ...]:
    """Normalizes each channel with a mean and a variance that are given. Returns also the mean and
    the inverse deviation, which are empty on the CPU."""
    like, mean_like, inverse_like = build.fake
    work = computation_of(x.dtype)

    def inverse(channel: Sequence[Index]) -> Scalar:
        return 1 / s("sqrt", cast(build.read(var, channel), work) + eps)

    def body(at: Sequence[Index]) -> Scalar:
        channel = [at[1]]
        factor = inverse(channel)
        if weight is not None:
            factor = factor * cast(build.read(weight, channel), work)
        value = (cast(build.read(x, at), work) - cast(build.read(mean, channel), work)) * factor
        return value if bias is None else value + cast(build.read(bias, channel), work)

    return (
        build.pointwise(body, like),
        build.pointwise(lambda channel: build.read(mean, channel), mean_like),
        build.pointwise(inverse, inverse_like),
    )


@lowers(aten._fused_rms_norm.default)
def rms_norm(
    build: Builder, x: View, shape: Sequence[Any], weight: View | None, eps: float | None
) -> tuple[View, View]:
    """Divides by the root of the mean square over the last dimensions. Returns also 1 / that root,
    which the gradient needs."""
    like, rstd_like = build.fake
    rank, work = len(x.size), computation_of(x.dtype)
    over = list(range(rank - len(shape), rank))
    epsilon = torch.finfo(work).eps if eps is None else eps
    inner = [x.size[dim] for dim in over]

    def body(outer: Sequence[Index], inside: Sequence[Index]) -> Scalar:
        value = cast(build.read(x, [*outer[: rank - len(shape)], *inside]), work)
        return value * value

    kept = rstd_like.new_empty([*like.shape[: rank - len(shape)], *[1] * len(shape)], dtype=work)
    squares = build.reduction(inner, body, "sum", kept)
    count = const(1, work)
    for size in inner:
        if size.value is None:
            raise Unsupported("sizes only known at run time")
        count = const(count.attr * size.value, work)
    inverse = squeeze_over(
        build, rstd_like, squares, over, lambda value: _inverse(value, count, epsilon)
    )

    def result(at: Sequence[Index]) -> Scalar:
        value = cast(build.read(x, at), work) * cast(build.read(inverse, at), work)
        return _affine(build, value, weight, None, at[rank - len(shape) :], work)

    return build.pointwise(result, like), inverse
