"""`split` along a dimension of size 0: one empty part. torch's decomposition fails there before
2.13."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._decomp import decomposition_table

SPLIT = torch.ops.aten.split.Tensor


def split(x: torch.Tensor, size: int, dim: int = 0) -> Any:
    """The views of x, [..., n, ...] along `dim`, of at most `size` each."""
    if x.shape[dim] == 0:
        return [torch.ops.aten.alias.default(x)]
    return decomposition_table[SPLIT](x, size, dim)


EMPTY_SPLIT: dict[Any, Callable[..., Any]] = {SPLIT: split}
