"""DistributedCall: a node that makes a distributed tensor (torch's DTensor) of a tensor, a tensor
of a distributed one, or one that is distributed in another way."""

from __future__ import annotations

from typing import Any

import torch


class DistributedCall:
    """The target of a node that calls a method of DTensor. fixed: its arguments beside the tensor:
    the mesh, placements and the like."""

    def __init__(self, method: Any, fixed: dict[str, Any]) -> None:
        self.__name__ = method.__name__
        self.method, self.fixed = method, fixed

    def __call__(self, tensor: torch.Tensor) -> Any:
        return self.method(tensor, **self.fixed)
