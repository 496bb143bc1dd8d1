"""The fake of a wrapper subclass: an instance of its class around the fakes of its inner tensors.

The sizes of the wrapper follow those of the inner tensors: of one that is laid out as the wrapper
is, or, dimension by dimension, of one that has the same size. Guards check that on later calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

Numbers = tuple[int | torch.SymInt, ...]


def wrap_fakes(real: Any, metadata: Any, inner: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """An instance like `real` around fake tensors."""
    sizes, strides = layout_of(real, inner)
    with torch.no_grad():
        fake: torch.Tensor = type(real).__tensor_unflatten__(dict(inner), metadata, sizes, strides)
    return fake.requires_grad_(real.requires_grad)


def layout_of(real: Any, inner: Mapping[str, torch.Tensor]) -> tuple[Numbers, Numbers]:
    """The sizes and strides of a wrapper, by those of its inner tensors."""
    for name, fake in inner.items():
        part = getattr(real, name)
        if part.shape == real.shape and part.stride() == real.stride():
            return tuple(fake.shape), tuple(fake.stride())
    known = {
        size: symbol
        for name, fake in inner.items()
        for size, symbol in zip(getattr(real, name).shape, fake.shape, strict=True)
        if isinstance(symbol, torch.SymInt)
    }
    sizes = tuple(known.get(size, size) for size in real.shape)
    if sizes == tuple(real.shape) or not real.is_contiguous():
        return tuple(real.shape), tuple(real.stride())
    return sizes, contiguous_strides(sizes)


def contiguous_strides(sizes: Numbers) -> Numbers:
    strides: list[Any] = []
    step: Any = 1
    for size in reversed(sizes):
        strides.insert(0, step)
        step = step * size
    return tuple(strides)
