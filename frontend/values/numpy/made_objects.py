"""The NumPy objects that generated code makes of tensors."""

from __future__ import annotations

from typing import Any

import torch


def read_only_array(tensor: torch.Tensor) -> Any:
    """An array over a tensor's memory that does not write it."""
    array = tensor.numpy()
    array.flags.writeable = False
    return array


def scalar_of(tensor: torch.Tensor) -> Any:
    """The number in a tensor without dimensions, as NumPy's scalar."""
    return tensor.numpy()[()]
