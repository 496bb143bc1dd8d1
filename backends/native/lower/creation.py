"""Operators that create tensors: full, arange, tril and triu masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.fx

from ..ir.index import Index
from ..ir.program import View
from ..ir.scalar import Scalar, position
from ..ir.scalar import scalar as s
from .build import Builder
from .pointwise import computation_of, operand
from .registry import Unsupported, lowers

aten = torch.ops.aten


def lower_fill(build: Builder, value: Any) -> View:
    dtype = computation_of(build.fake.dtype)
    return build.pointwise(lambda at: operand(build, value, at, dtype))


@lowers(aten.full.default, aten.full_like.default, aten.new_full.default)
def full(build: Builder, like: Any, *args: Any, **options: Any) -> View:
    return lower_fill(build, args[-1])


@lowers(aten.fill.Scalar, aten.fill.Tensor)
def fill(build: Builder, like: Any, value: Any) -> View:
    return lower_fill(build, value)


@lowers(aten.scalar_tensor.default)
def scalar_tensor(build: Builder, value: Any, **options: Any) -> View:
    return lower_fill(build, value)


@lowers(aten.zeros.default, aten.zeros_like.default, aten.new_zeros.default)
def zeros(build: Builder, *_: Any, **options: Any) -> View:
    return lower_fill(build, 0)


@lowers(aten.ones.default, aten.ones_like.default, aten.new_ones.default)
def ones(build: Builder, *_: Any, **options: Any) -> View:
    return lower_fill(build, 1)


@lowers(aten.arange.start_step, aten.arange.start, aten.arange.default)
def arange(build: Builder, *args: Any, **options: Any) -> View:
    start, _, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
    dtype = build.fake.dtype
    if dtype.is_floating_point or not all(
        isinstance(value, (int, Index)) for value in (start, step)
    ):
        raise Unsupported("a range of fractions")
    return build.pointwise(lambda at: position(at[0] * step + start, dtype))


@lowers(torch.ops.prims.iota.default)
def iota(build: Builder, length: Any, *, start: Any, step: Any, **options: Any) -> View:
    return build.pointwise(lambda at: position(at[0] * step + start))


def triangle(build: Builder, x: View, diagonal: Any, kept: str) -> View:
    def body(subscripts: Sequence[Index]) -> Scalar:
        column, row = subscripts[-1], subscripts[-2]
        inside = s(kept, position(column - row), position(build.sizes(diagonal)))
        return s("where", inside, build.read(x, subscripts), 0)

    return build.pointwise(body)


@lowers(aten.triu.default)
def triu(build: Builder, x: View, diagonal: Any = 0) -> View:
    return triangle(build, x, diagonal, "ge")


@lowers(aten.tril.default)
def tril(build: Builder, x: View, diagonal: Any = 0) -> View:
    return triangle(build, x, diagonal, "le")


@lowers(aten.eye.default, aten.eye.m)
def eye(build: Builder, *_: Any, **options: Any) -> View:
    return build.pointwise(lambda at: s("eq", position(at[0]), position(at[1])))
