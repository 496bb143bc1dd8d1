"""The gradient of a layer norm over many elements, on the CPU: torch adds up the gradients of
weight and bias while it computes that of the input. Kernels of ours would store both for every
element and add them up afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._decomp import decomposition_table

BACKWARD = torch.ops.aten.native_layer_norm_backward.default
LARGE = 1 << 20  # elements; of fewer, what is stored for every element stays in the cache


def layer_norm_backward(gradient: torch.Tensor, x: torch.Tensor, *more: Any) -> Any:
    """Its decomposition, or NotImplemented to leave it to torch."""
    count = x.numel()
    if x.device.type == "cpu" and isinstance(count, int) and count >= LARGE:
        return NotImplemented
    return decomposition_table[BACKWARD](gradient, x, *more)


LARGE_NORMS: dict[Any, Callable[..., Any]] = {BACKWARD: layer_norm_backward}
