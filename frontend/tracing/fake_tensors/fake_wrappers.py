"""The fake of a wrapper subclass: an instance of its class around the fakes of its inner tensors.

The sizes of the wrapper follow those of the inner tensors: of one that is laid out as the wrapper
is, or, dimension by dimension, of one that has the same size. Guards check that on later calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch._C._functorch import is_functorch_wrapped_tensor
from torch._subclasses.fake_tensor import FakeTensor

from ....backends.graph.wrappers import inner_tensors, is_distributed
from ...values.tensor.wrapper_subclass import is_captured_wrapper
from .distributed_layout import Numbers, layout_of_whole
from .fakes_by_metadata import contiguous_strides

OUTSIDE = "what made an input of a graph lies outside of the graph"


def wrap_fakes(real: Any, metadata: Any, inner: Mapping[str, Any]) -> torch.Tensor:
    """An instance like `real` around fake tensors; `inner` also has the other objects in it."""
    tensors = {name: fake for name, fake in inner.items() if isinstance(fake, torch.Tensor)}
    sizes, strides = layout_of(real, tensors)
    with torch.no_grad():
        fake: torch.Tensor = type(real).__tensor_unflatten__(dict(inner), metadata, sizes, strides)
    fake.requires_grad_(real.requires_grad)
    if real.is_leaf:
        return fake
    with torch.enable_grad():
        result: torch.Tensor = torch._C._functions.DelayedError(OUTSIDE, 1)(fake)
    return result


def layout_of(real: Any, inner: Mapping[str, torch.Tensor]) -> tuple[Numbers, Numbers]:
    """The sizes and strides of a wrapper, by those of its inner tensors."""
    if real.is_nested:
        return ragged_layout(real, inner)
    if is_distributed(type(real)):
        return layout_of_whole(real, inner["_local_tensor"])
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


def ragged_layout(real: Any, inner: Mapping[str, torch.Tensor]) -> tuple[Numbers, Numbers]:
    """The sizes of a jagged tensor: the ragged one is the symbol of its offsets, or lengths."""
    owner: Any = inner.get("_lengths", inner["_offsets"])
    sizes = list(real.shape)
    sizes[real._ragged_idx] = owner.get_nested_int()
    return tuple(sizes), tuple(real.stride())


def is_fake(result: torch.Tensor) -> bool:
    """Whether an operator's result on fake tensors can be a value of the graph."""
    if is_captured_wrapper(type(result)):
        return all(map(is_fake, inner_tensors(result)))
    return isinstance(result, FakeTensor) or is_functorch_wrapped_tensor(result)
