"""Which tensors of an ATen graph share memory."""
from __future__ import annotations

from typing import Any

import torch

from .copies import AnyNode


def memory_of(tensor: torch.Tensor) -> int:
    """Equal for fake tensors on one storage."""
    return tensor.untyped_storage()._cdata


def results_of(node: AnyNode) -> list[Any]:
    """What a node's operator returns, on fake tensors, as a list."""
    value = node.meta.get("val")
    return list(value) if isinstance(value, (tuple, list)) else [value]


def memories(node: AnyNode) -> list[Any]:
    """For each result something that is equal for two tensors on the same memory. Nodes that were copied bring it in meta["memory"]:
    their fake results are those of the node that they are copies of."""
    if "memory" in node.meta:
        return node.meta["memory"]
    return [memory_of(item) if isinstance(item, torch.Tensor) and item.layout == torch.strided else None for item in results_of(node)]
