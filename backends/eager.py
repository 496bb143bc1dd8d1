"""`eager`: runs the graph as it was captured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.fx

from .registry import register_backend


@register_backend("eager", overlaps=True, higher_order=True)
def eager(gm: torch.fx.GraphModule, example_inputs: list[torch.Tensor]) -> Callable[..., Any]:
    """The graph's own generated Python."""
    return gm.forward
