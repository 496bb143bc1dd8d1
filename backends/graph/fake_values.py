"""The fake values that a capture left in the nodes of its graph."""

from __future__ import annotations

from typing import Any

import torch.fx


def fake_of(node: Any) -> Any:
    """A node's fake tensor or number; None for what is no node, or has none."""
    return node.meta.get("example_value") if isinstance(node, torch.fx.Node) else None
