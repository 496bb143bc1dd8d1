"""The memory format, contiguous or channels-last, that operators choose by a tensor's strides."""

from __future__ import annotations

import torch
from torch._prims_common import suggest_memory_format

from .passes.symbolic_sizes import has_known_hints, hint

# by the number of dimensions, those that tensors without gaps may have
FORMATS = {
    4: (torch.contiguous_format, torch.channels_last),
    5: (torch.contiguous_format, torch.channels_last_3d),
}


def layout_of_call(fake: torch.Tensor) -> torch.Tensor:
    """A tensor on the device `meta` with the sizes and strides that a fake tensor has in the call
    that is compiled for. No guard is added."""
    sizes, strides = map(hint, fake.shape), map(hint, fake.stride())
    with torch._C._DisableTorchDispatch():
        return torch.empty_strided(tuple(sizes), tuple(strides), device="meta")


def nearest_format(fake: torch.Tensor) -> torch.memory_format | None:
    """The format that is nearest to a tensor's strides; None where they depend on values."""
    return suggest_memory_format(layout_of_call(fake)) if has_known_hints(fake) else None


def format_of_norm(fake: torch.Tensor) -> torch.memory_format | None:
    """The format in which torch's batch norm lays out its result; None where it depends on values.
    A tensor without gaps may be in a format that `nearest_format` does not tell from strides."""
    if not has_known_hints(fake):
        return None
    fitting = (form for form in FORMATS.get(fake.dim(), ()) if is_in_format(fake, form))
    return next(fitting, None) or nearest_format(fake)


def is_in_format(fake: torch.Tensor, memory_format: torch.memory_format) -> bool:
    """Whether the strides that a tensor has in this call are those of a format."""
    return layout_of_call(fake).is_contiguous(memory_format=memory_format)
