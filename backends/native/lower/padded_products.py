"""Matrix products on a GPU with sizes for which cuBLAS has only slow kernels, such as a vocabulary
of 50,257 words in half precision: its fast ones read rows that begin at multiples of 16 bytes.
Operands are padded with zeros, torch multiplies, and the result is cut.

The idea is that of torch._inductor's shape padding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import torch

from ....records import record
from ..ir.index import Index, claim_bounds
from ..ir.program import PADDED, Call, Kernel, View
from ..ir.scalar import Scalar, position, scalar
from ..printers.products import precision
from .build import Builder
from .fake_layouts import number_now
from .indexing import is_within, read_masked
from .registry import Unsupported

DEVICES = ("cuda",)  # types
ALIGNED = 16  # bytes
Size = int | torch.SymInt
# Additions and multiplications of a product for each byte that is copied to pad it. For 10^15 of
# them, padding saves an H100 2.6 seconds where a size is even, and 9 where it is odd; it copies as
# many bytes in 350.
WORTH = 256


@record
class Padding:
    """The padded sizes of a product: rows of left, terms of the sum, columns of the result. The
    rows may be a symbol where they are not padded."""

    rows: Size
    depth: int
    columns: int


def padded_product(
    build: Builder,
    left: View,
    right: View,
    added: View | None = None,
    numbers: Mapping[str, Any] | None = None,
) -> View:
    """left @ right, plus `added`, a number for each column. Raises Unsupported where padding does
    not pay."""
    padding = padding_of(build, left, right, added)
    operands = [
        pad_matrix(build, left, padding.rows, padding.depth),
        pad_matrix(build, right, padding.depth, padding.columns),
    ]
    if added is not None:
        operands.insert(0, pad_vector(build, added, padding.columns))
    result_like = build.fake.new_empty((padding.rows, padding.columns))
    buffer = build.new_buffer(build.node.name, result_like)
    target: Any = build.node.target
    build.program.steps.append(
        Call(target, tuple(operands), numbers or {}, (buffer.name,), True, str(target))
    )
    result, size = build.window(buffer), (left.size[0], right.size[1])
    if result.size == size:
        return result
    cut = replace(result, size=size)
    return build.pointwise(lambda at: build.read(cut, at))


def padding_of(build: Builder, left: View, right: View, added: View | None) -> Padding:
    """How a product is padded. Raises Unsupported where it is not."""
    like = build.fake
    if not runs_on_tensor_cores(like.dtype):
        raise Unsupported("a product without tensor cores")
    if added is not None and (len(added.size) != 1 or added.size[0] != right.size[1]):
        raise Unsupported("a matrix that is added")
    if 1 not in left.stride or 1 not in right.stride:
        raise Unsupported("a matrix with gaps between elements")
    rows, depth, columns = left.size[0], left.size[1], right.size[1]
    side_by_side = left.stride[1] == 1 or right.stride[0] == 1
    found = Padding(
        round_up(rows, like.dtype) if left.stride[1] != 1 else like.shape[0],
        round_up(depth, like.dtype) if side_by_side else known_size(depth),
        round_up(columns, like.dtype),
    )
    copied = bytes_copied(build, left, right, found)
    operations = 2 * number_now(like.shape[0]) * found.depth * found.columns
    if not copied or operations < WORTH * copied:
        raise Unsupported("a product that is not worth padding")
    return found


def runs_on_tensor_cores(dtype: torch.dtype) -> bool:
    return dtype in (torch.float16, torch.bfloat16) or precision(dtype) == "tf32"


def known_size(size: Index) -> int:
    if size.value is None:
        raise Unsupported("a product of varying size")
    return size.value


def round_up(size: Index, dtype: torch.dtype) -> int:
    """The size rounded up to a row that fills whole units of ALIGNED bytes."""
    unit = ALIGNED // dtype.itemsize
    return -(-known_size(size) // unit) * unit


def bytes_copied(build: Builder, left: View, right: View, padding: Padding) -> int:
    """Bytes that padding reads and writes; 0 where no size has to be padded."""
    like = build.fake
    rows, depth, columns = (
        number_now(like.shape[0]),
        known_size(left.size[1]),
        known_size(right.size[1]),
    )
    wide = number_now(padding.rows)
    elements = 0
    if (wide, padding.depth) != (rows, depth):
        elements += wide * padding.depth
    if (padding.depth, padding.columns) != (depth, columns):
        elements += padding.depth * padding.columns
    if (wide, padding.columns) != (rows, columns):
        elements += rows * columns
    return int(2 * elements * like.dtype.itemsize)


def pad_matrix(build: Builder, matrix: View, rows: Size, columns: Size) -> View:
    """A matrix with zeros after its rows and columns; itself where it has these sizes. The copy,
    which products share, keeps its order in memory."""
    if matrix.stride[1] != 1:
        return transpose(pad_matrix(build, transpose(matrix), columns, rows))
    if matrix.size == build.shape((rows, columns)):
        return matrix
    key = matrix, *build.shape((rows, columns))
    if key not in build.operands:
        build.operands[key] = copy_padded(build, matrix, (rows, columns))
    return build.operands[key]


def pad_vector(build: Builder, vector: View, length: int) -> View:
    return (
        vector if vector.size == build.shape((length,)) else copy_padded(build, vector, (length,))
    )


def copy_padded(build: Builder, source: View, sizes: Sequence[Size]) -> View:
    """A contiguous copy with zeros after the source's elements."""
    wide = build.shape(sizes)

    def body(at: Sequence[Index]) -> Scalar:
        inside = [
            is_within(position(subscript), 0, size)
            for subscript, size, padded_size in zip(at, source.size, wide, strict=True)
            if size != padded_size
        ]
        here = reduce(lambda one, other: scalar("and", one, other), inside)
        place = [
            claim_bounds(subscript, size) for subscript, size in zip(at, source.size, strict=True)
        ]
        return scalar("where", here, read_masked(source, place, here), 0)

    copy = build.pointwise(body, build.fake.new_empty(sizes, dtype=source.dtype))
    kernel = build.program.steps[-1]
    assert isinstance(kernel, Kernel)
    build.program.steps[-1] = replace(kernel, origins=(PADDED,))
    return copy


def transpose(matrix: View) -> View:
    return replace(matrix, size=matrix.size[::-1], stride=matrix.stride[::-1])
