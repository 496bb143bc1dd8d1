"""GraphConstant: a tensor that tracing has put into a graph, such as that of torch.tensor(2.0).
Stored, it is its bytes. Tensors of the program are inputs of graphs, never constants."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

MOST_BYTES = 1 << 20  # of one constant that is stored


@dataclass(frozen=True, eq=False)
class GraphConstant:
    """Stands for the tensor where it is stored; read again, it is the tensor. Raises ValueError
    where another process cannot make it."""

    tensor: torch.Tensor

    def __reduce__(self) -> Any:
        """Pickles dtype, shape and elements. Raises ValueError for a large tensor, and one that is
        not described by these."""
        tensor = self.tensor
        if (
            type(tensor) is not torch.Tensor
            or tensor.device.type != "cpu"
            or tensor.layout is not torch.strided
            or tensor.requires_grad
            or tensor.is_quantized
            or tensor.is_conj()
            or tensor.is_neg()
            or not tensor.is_contiguous()
            or tensor.numel() * tensor.element_size() > MOST_BYTES
        ):
            raise ValueError("a graph with a constant that is large, or no plain tensor on the CPU")
        data = tensor.detach().reshape(-1).view(torch.uint8).numpy().tobytes()
        return tensor_of_bytes, (data, tensor.dtype, tuple(tensor.shape))


def tensor_of_bytes(data: bytes, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    if not math.prod(shape):
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(data), dtype=dtype).reshape(shape)


def with_constants(objects: Mapping[str, Any]) -> dict[str, Any]:
    """Named objects with a GraphConstant for each tensor among them."""
    return {
        name: GraphConstant(item) if isinstance(item, torch.Tensor) else item
        for name, item in objects.items()
    }
