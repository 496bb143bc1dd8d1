"""DistributedCall: a node that makes a distributed tensor (torch's DTensor) of a tensor, a tensor
of a distributed one, or one that is distributed in another way."""

from __future__ import annotations

import itertools
from typing import Any

import torch

_numbers = itertools.count()


class DistributedCall:
    """The target of a node that calls a method of DTensor. fixed: its arguments beside the tensor:
    the mesh, placements and the like."""

    def __init__(self, method: Any, fixed: dict[str, Any]) -> None:
        self.__name__ = f"{method.__name__}_{next(_numbers)}"
        self.method, self.fixed = method, fixed

    def __call__(self, tensor: torch.Tensor) -> Any:
        return self.method(tensor, **self.fixed)
