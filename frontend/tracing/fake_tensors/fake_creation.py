"""Fake tensors of a mode from meta tensors, without the checks of torch's constructor: a capture
makes a hundred for each layer of a model. The first on a device is made by torch, and the others
get its attributes."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode


def make_fake(mode: FakeTensorMode, meta: torch.Tensor, device: torch.device) -> FakeTensor:
    """FakeTensor(mode, meta, device)."""
    known: dict[torch.device, dict[str, Any]] = vars(mode).setdefault("attributes", {})
    attributes = known.get(device)
    if attributes is None or mode._allow_unsafe_data_ptr_access:
        fake = FakeTensor(mode, meta, device)
        if fake.fake_device == device:  # not the current one of several
            # without the mode, which would wait for a garbage collection if it referred to itself
            known[device] = {name: one for name, one in vars(fake).items() if one is not mode}
        return fake
    fake = torch.Tensor._make_subclass(
        FakeTensor,
        meta,
        meta.requires_grad,
        dispatch_device=True,
        device_for_backend_keys=device,
    )
    torch._C._set_throw_on_mutable_data_ptr(fake)
    vars(fake).update(attributes, fake_mode=mode)
    return fake
