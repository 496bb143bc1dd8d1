"""Which tensors of a graph share memory."""

from __future__ import annotations

from typing import Any

import torch
import torch.fx
from torch._C._functorch import get_unwrapped, is_functorch_wrapped_tensor

from .copies import AnyNode
from .fake_values import fake_of


def memory_of(tensor: torch.Tensor) -> int:
    """Equal for tensors on one storage."""
    return tensor.untyped_storage()._cdata


def share_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors are on one storage."""
    return memory_of(one) == memory_of(other)


def memory_under(fake: torch.Tensor) -> int:
    """Equal for fake tensors on one storage, below the levels of torch.func that wrap them."""
    while is_functorch_wrapped_tensor(fake):
        fake = get_unwrapped(fake)
    return memory_of(fake)


def is_strided(node: torch.fx.Node) -> bool:
    """Whether a node of a captured graph is a tensor laid out by strides."""
    fake = fake_of(node)
    return isinstance(fake, torch.Tensor) and fake.layout == torch.strided


def memory_at(node: torch.fx.Node) -> int | None:
    """Equal for nodes of a captured graph that are strided tensors on one storage; None for other
    nodes."""
    return memory_under(node.meta["example_value"]) if is_strided(node) else None


def plain_memory_at(node: torch.fx.Node) -> int | None:
    """The same as memory_at; None also for tensors under levels of torch.func."""
    fake = fake_of(node)
    if isinstance(fake, torch.Tensor) and is_functorch_wrapped_tensor(fake):
        return None
    return memory_at(node)


def results_of(node: AnyNode) -> list[Any]:
    """What a node's operator returns, on fake tensors, as a list."""
    value = node.meta.get("val")
    return list(value) if isinstance(value, (tuple, list)) else [value]


def memories(node: AnyNode) -> list[Any]:
    """A value for each result that is equal for two tensors on the same memory. Copied nodes have
    it in meta["memory"], since they share the fake results of their originals."""
    if "memory" in node.meta:
        return node.meta["memory"]
    return [
        memory_of(item) if isinstance(item, torch.Tensor) and item.layout == torch.strided else None
        for item in results_of(node)
    ]
