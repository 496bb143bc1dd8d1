"""The fake values that a capture left in the nodes of its graph."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.fx
from torch.utils._pytree import tree_leaves


def fake_of(node: Any) -> Any:
    """A node's fake tensor or number; None for what is no node, or has none."""
    return node.meta.get("example_value") if isinstance(node, torch.fx.Node) else None


def fake_tensors_of(node: torch.fx.Node) -> list[torch.Tensor]:
    """The fake tensors that a node gives: one, or those in a tuple or list."""
    return [item for item in tree_leaves(fake_of(node)) if isinstance(item, torch.Tensor)]


def number_at_capture(number: int | torch.SymInt) -> int | None:
    """A size or stride in the call that was captured, without a guard; None where values decide
    it."""
    return number if isinstance(number, int) else number.node.hint


def bytes_of(node: torch.fx.Node) -> float:
    """The bytes of a node's tensors, with their sizes at the capture; infinite where a size depends
    on values."""
    return sum(element_count(fake) * fake.element_size() for fake in fake_tensors_of(node))


def element_count(fake: torch.Tensor) -> float:
    """The number of elements of a tensor; where sizes vary, at the capture, and infinite for a size
    that depends on values."""
    count = number_at_capture(fake.numel())
    return math.inf if count is None else float(count)
