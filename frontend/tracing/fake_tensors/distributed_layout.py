"""The sizes of a distributed tensor by those of this process's part, where these may vary.

A dimension that is divided evenly among n processes is n times as large as its part; one that is
not divided is as large. Guards check that on later calls.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from .fakes_by_metadata import contiguous_strides

Numbers = tuple[int | torch.SymInt, ...]


def sizes_follow(whole: Any) -> bool:
    """Whether the sizes of a distributed tensor follow from those of its part. Those of a
    parameter are constants, and so are those of one whose elements are not in order."""
    part, about = whole._local_tensor, whole._spec.tensor_meta
    return (
        not isinstance(whole, torch.nn.Parameter)
        and whole.dim() == part.dim()
        and part.is_contiguous()
        and whole.stride() == contiguous_strides(tuple(whole.shape))
        and sizes_of_whole(whole, part.shape) == tuple(whole.shape) == tuple(about.shape)
        and tuple(about.stride) == whole.stride()
    )


def sizes_of_whole(whole: Any, sizes: Numbers) -> Numbers:
    """The sizes of a distributed tensor for sizes of its part."""
    return tuple(size * count_shares(whole, dim) for dim, size in enumerate(sizes))


def count_shares(whole: Any, dim: int) -> int:
    """Among how many processes a dimension is divided."""
    divided = zip(whole.device_mesh.shape, whole.placements, strict=True)
    return math.prod(count for count, placement in divided if placement.is_shard(dim))


def layout_of_whole(whole: Any, part: torch.Tensor) -> tuple[Numbers, Numbers]:
    """The sizes and strides of a distributed tensor, by those of the fake of its part."""
    if not part._has_symbolic_sizes_strides:
        return tuple(whole.shape), tuple(whole.stride())
    sizes = sizes_of_whole(whole, tuple(part.shape))
    return sizes, contiguous_strides(sizes)
