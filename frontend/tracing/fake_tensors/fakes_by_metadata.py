"""Fake tensors by metadata: for parameters and other tensors that fill a memory of their own.

torch describes a tensor in 40 properties, makes a fake of the description, and notes both, so that
views and tensors on the same memory get fakes on the same fake memory. For a tensor that fills a
memory of its own all of that follows from its metadata. What is made here is noted in the same
places. It takes a tenth of the time, and torch's way imports TorchDynamo, which takes a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Protocol

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from .fake_creation import make_fake


class ResultRecipe(Protocol):
    """How to make the fake result of a node. owner: the node on whose memory it is, None for new
    memory."""

    @property
    def owner(self) -> torch.fx.Node | None: ...
    def make(self, mode: FakeTensorMode, base: Any) -> torch.Tensor | None: ...


TYPES = (torch.nn.Parameter, torch.Tensor)
DEVICES = ("cpu", "cuda")


def follows_from_metadata(real: torch.Tensor) -> bool:
    """Whether a tensor's fake follows from its metadata; if not, torch has to look at it."""
    return (
        type(real) in TYPES
        and real.layout is torch.strided
        and not vars(real)  # attributes that the program has added
        and (real.is_leaf or not real.retains_grad)
        and not torch._C._functorch.is_functorch_wrapped_tensor(real)
        and torch._C._functorch.maybe_current_level() is None
        and not real.is_inference()
        and not torch.is_inference_mode_enabled()
        and not real.is_nested
        and not real.is_quantized
        and not real._is_view()
        and real.is_contiguous()
        and not real.storage_offset()
        and real.untyped_storage().nbytes() == real.numel() * real.element_size()
        and not (
            real.requires_grad
            and real.is_leaf
            and getattr(real, "grad_dtype", real.dtype) != real.dtype
        )
        and real.device.type in DEVICES
        and torch._C._dispatch_keys(real).raw_repr() == usual_keys(real.dtype, real.device)
        and (not real.is_leaf or real.grad is None or follows_from_metadata(real.grad))
    )


def is_described_by_guard(real: torch.Tensor) -> bool:
    """Whether its guard and a gradient say all of a tensor: a parameter of static sizes, with
    memory of its own."""
    return type(real) is torch.nn.Parameter and real.is_leaf and follows_from_metadata(real)


@cache
def usual_keys(dtype: torch.dtype, device: torch.device) -> int:
    """The dispatch keys of a tensor that is neither conjugated nor of a kind of its own."""
    with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
        keys: int = torch._C._dispatch_keys(torch.empty(0, dtype=dtype, device=device)).raw_repr()
    return keys


def is_noted(mode: FakeTensorMode, real: torch.Tensor) -> bool:
    """Whether a tensor, or its memory, has a fake."""
    describer = mode.fake_tensor_converter.meta_converter.describer
    return real in describer.lookup_tensor or real.untyped_storage() in describer.lookup_storage


def forget_memory(mode: FakeTensorMode, real: torch.Tensor) -> None:
    """Makes the next fake of a tensor on this memory have a fake memory of its own."""
    describer = mode.fake_tensor_converter.meta_converter.describer
    describer.lookup_storage.pop(real.untyped_storage(), None)


def fake_from_metadata(mode: FakeTensorMode, real: torch.Tensor) -> FakeTensor:
    """The fake of a tensor that follows from its metadata and is not noted."""
    return make_and_note(mode, real, real.shape, real.stride())


def symbolic_fake_from_metadata(
    mode: FakeTensorMode, real: torch.Tensor, sizes: Sequence[Any]
) -> FakeTensor:
    """The same with other sizes, some of which are symbols."""
    return make_and_note(mode, real, sizes, contiguous_strides(sizes))


def contiguous_strides(sizes: Sequence[Any]) -> tuple[Any, ...]:
    strides: list[Any] = []
    step: Any = 1
    for size in reversed(sizes):
        strides.insert(0, step)
        step = step * size
    return tuple(strides)


def make_and_note(
    mode: FakeTensorMode, real: torch.Tensor, sizes: Sequence[Any], strides: Sequence[Any]
) -> FakeTensor:
    """A fake of these sizes and strides, noted in the mode's memo as that of the real tensor."""
    with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
        meta = torch.empty_strided(sizes, strides, dtype=real.dtype, device="meta")
        fake = make_fake(mode, meta, real.device)
        fake.requires_grad_(real.requires_grad)
        if type(real) is torch.nn.Parameter:
            fake._is_param = True
    if not real.is_leaf:
        with torch.enable_grad():
            fake = mode.fake_tensor_converter.meta_converter._backward_error(fake)
    converter = mode.fake_tensor_converter.meta_converter
    describer = converter.describer
    storage_id = describer.get_storage_id(real.untyped_storage())
    converter.storage_memo[storage_id] = fake.untyped_storage()
    converter.tensor_memo[describer.get_tensor_id(real)] = fake
    if real.is_leaf and real.grad is not None:  # which may be on the same memory
        gradient = mode.from_tensor(real.grad, static_shapes=True)
        with mode:  # without one, torch loads its classes of distributed tensors to compare
            fake.grad = gradient
    return fake


def has_usual_strides(real: torch.Tensor) -> bool:
    """Whether the strides of a contiguous tensor follow from its sizes; those of dimensions of
    size 1 may be any."""
    step = 1
    for size, stride in zip(reversed(real.shape), reversed(real.stride()), strict=True):
        if stride != step:
            return False
        step *= size
    return True
