"""The memory format, contiguous or channels-last, that operators choose by a tensor's strides."""

from __future__ import annotations

import torch
from torch._prims_common import suggest_memory_format

from .passes.symbolic_sizes import has_known_hints, hint


def layout_of_call(fake: torch.Tensor) -> torch.Tensor:
    """A tensor on the device `meta` with the sizes and strides that a fake tensor has in the call
    that is compiled for. No guard is added."""
    sizes, strides = map(hint, fake.shape), map(hint, fake.stride())
    with torch._C._DisableTorchDispatch():
        return torch.empty_strided(tuple(sizes), tuple(strides), device="meta")


def nearest_format(fake: torch.Tensor) -> torch.memory_format | None:
    """The format that is nearest to a tensor's strides; None where they depend on values."""
    return suggest_memory_format(layout_of_call(fake)) if has_known_hints(fake) else None


def is_in_format(fake: torch.Tensor, memory_format: torch.memory_format) -> bool:
    """Whether the strides that a tensor has in this call are those of a format."""
    return layout_of_call(fake).is_contiguous(memory_format=memory_format)
