"""Fake tensors by metadata: for parameters and other leaf tensors that fill a memory of their own,
once torch has made a fake of one with the same metadata.

torch describes a tensor in 40 properties, makes a fake of the description, and notes both, so that
views and tensors on the same memory get fakes on the same fake memory. For a tensor that fills a
memory of its own all of that follows from its metadata. What is made here is noted in the same
places.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

MOST_KINDS = 10_000
TYPES = (torch.nn.Parameter, torch.Tensor)
# a cache: metadata of tensors whose fakes are made here
_kinds: set[Any] = set()


def key_of_tensor(real: torch.Tensor) -> Any:
    """The metadata that a tensor's fake depends on; None for one that torch has to look at
    itself."""
    if (
        type(real) not in TYPES
        or real.layout is not torch.strided
        or vars(real)  # attributes that the program has added
        or not real.is_leaf
        or torch._C._functorch.is_functorch_wrapped_tensor(real)
        or torch._C._functorch.maybe_current_level() is not None
        or real.is_inference()
        or torch.is_inference_mode_enabled()
        or real.is_nested
        or real.is_quantized
        or real._is_view()
        or not real.is_contiguous()
        or real.storage_offset()
        or real.untyped_storage().nbytes() != real.numel() * real.element_size()
        or (real.requires_grad and getattr(real, "grad_dtype", real.dtype) != real.dtype)
    ):
        return None
    gradient = None if real.grad is None else key_of_tensor(real.grad)
    if gradient is None and real.grad is not None:
        return None
    keys = torch._C._dispatch_keys(real).raw_repr()
    return type(real), real.shape, real.dtype, real.device, real.requires_grad, keys, gradient


def fake_of_known_kind(mode: FakeTensorMode, real: torch.Tensor, key: Any) -> FakeTensor | None:
    """The fake of a tensor of a kind that was learned; None for one of another kind, and where its
    memory, or itself, has a fake already."""
    if key not in _kinds:
        return None
    converter = mode.fake_tensor_converter.meta_converter
    describer, storage = converter.describer, real.untyped_storage()
    if real in describer.lookup_tensor or storage in describer.lookup_storage:
        return None
    fake = make_from_metadata(mode, real)
    converter.storage_memo[describer.get_storage_id(storage)] = fake.untyped_storage()
    converter.tensor_memo[describer.get_tensor_id(real)] = fake
    set_gradient(mode, real, fake)  # which may be on the same memory
    return fake


def make_from_metadata(mode: FakeTensorMode, real: torch.Tensor) -> FakeTensor:
    with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
        meta = torch.empty_strided(real.shape, real.stride(), dtype=real.dtype, device="meta")
        fake = FakeTensor(mode, meta, real.device)
        fake.requires_grad_(real.requires_grad)
        if type(real) is torch.nn.Parameter:
            fake._is_param = True
    return fake


def set_gradient(mode: FakeTensorMode, real: torch.Tensor, fake: FakeTensor) -> None:
    """Gives a fake the fake of the real tensor's gradient."""
    if real.grad is not None:
        gradient = mode.from_tensor(real.grad, static_shapes=True)
        with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
            fake.grad = gradient


def learn_kind(mode: FakeTensorMode, real: torch.Tensor, key: Any, fake: FakeTensor) -> None:
    """Notes the metadata of a tensor if what is made of it is what torch has made. Sizes that are
    symbols, as its views may have given it, are not compared: that would be a guard."""
    symbolic = fake._has_symbolic_sizes_strides or has_symbolic_offset_or_memory(fake)
    if key not in _kinds and len(_kinds) < MOST_KINDS and not symbolic:
        made = make_from_metadata(mode, real)
        set_gradient(mode, real, made)
        if properties_of(made) == properties_of(fake) and type(made) is type(fake):
            _kinds.add(key)


def has_symbolic_offset_or_memory(fake: FakeTensor) -> bool:
    return (
        type(fake.storage_offset()) is not int or type(fake.untyped_storage().nbytes()) is not int
    )


def properties_of(fake: FakeTensor) -> tuple[Any, ...]:
    """All properties of a fake that a program or torch may ask for; its gradient by identity."""
    return (
        dict(vars(fake)), fake.shape, fake.stride(), fake.storage_offset(), fake.dtype,
        fake.fake_device, fake.device, fake.requires_grad, fake.is_leaf, id(fake.grad),
        fake._is_view(), fake._version, fake.is_inference(), fake.untyped_storage().nbytes(),
        torch._C._dispatch_keys(fake).raw_repr(),
    )  # fmt: skip
