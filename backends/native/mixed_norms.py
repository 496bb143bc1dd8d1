"""Layer and group norms on the CPU with half-precision input and float32 parameters, as under
autocast.

torch's kernels compute their statistics in float32, but FakeTensor gives them the input's dtype.
Decomposed to norms in float32, both agree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

ATEN = torch.ops.aten
HALVES = (torch.bfloat16, torch.float16)


def is_mixed(x: torch.Tensor, parameters: tuple[torch.Tensor | None, ...]) -> bool:
    wider = any(other is not None and other.dtype == torch.float32 for other in parameters)
    return x.device.type == "cpu" and x.dtype in HALVES and wider


def layer_norm(x: Any, shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    if not is_mixed(x, (weight, bias)):
        return NotImplemented
    result, mean, rstd = ATEN.native_layer_norm(x.float(), shape, weight, bias, eps)
    return result.to(x.dtype), mean, rstd


def group_norm(x: Any, weight: Any, bias: Any, *sizes_and_eps: Any) -> Any:
    if not is_mixed(x, (weight, bias)):
        return NotImplemented
    result, mean, rstd = ATEN.native_group_norm(x.float(), weight, bias, *sizes_and_eps)
    return result.to(x.dtype), mean, rstd


MIXED_NORMS: dict[Any, Callable[..., Any]] = {
    ATEN.native_layer_norm.default: layer_norm,
    ATEN.native_group_norm.default: group_norm,
}
