"""A static input buffer of a recording, with the strides of the input that is copied into it.

In: a tensor, and at each call another one of the same layout. Out: views of both, in which each
element occurs once, for the copy.
"""

from __future__ import annotations

import torch

from ...overlap import may_repeat
from .pool import without_ownership

Form = tuple[tuple[int, ...], tuple[int, ...]]


class StaticInput:
    """`tensor`: the buffer that the recorded work reads and writes instead of the input."""

    def __init__(self, like: torch.Tensor) -> None:
        with torch.no_grad():
            self.tensor = torch.empty_strided(
                like.shape, like.stride(), dtype=like.dtype, device=like.device
            )
        self.form = form_of(like)
        self.once = self.elements(self.tensor)

    def elements(self, tensor: torch.Tensor) -> torch.Tensor:
        """A view of a tensor of this layout in which each element occurs once."""
        return (
            tensor if self.form is None else tensor.as_strided(*self.form, tensor.storage_offset())
        )

    def release_memory(self) -> None:
        """Leaves the buffer's memory to the pool that it was allocated in."""
        self.tensor = without_ownership(self.tensor)
        self.once = self.elements(self.tensor)

    @property
    def repeats(self) -> bool:
        """Whether several indices refer to one element, so that the buffer cannot be copied back to
        the input."""
        return self.form is not None


def form_of(tensor: torch.Tensor) -> Form | None:
    """Sizes and strides of a view with each element once; None for the tensor as it is. Expanded
    dimensions shrink to one; for overlapping windows (unfold), the view is the memory from the
    first element to the last."""
    sizes, strides = tuple(tensor.shape), tuple(tensor.stride())
    if 0 in sizes or not may_repeat(sizes, strides):
        return None
    shrunk = tuple(1 if stride == 0 else size for size, stride in zip(sizes, strides, strict=True))
    if not may_repeat(shrunk, strides):
        return shrunk, strides
    reach = sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True)) + 1
    return (reach,), (1,)
