"""`inductor`: torch's own compiler, behind an adapter."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.fx
from torch._inductor.compile_fx import compile_fx

from .eager_gradients import like_eager
from .registry import register_backend


@register_backend("inductor")
def inductor(gm: torch.fx.GraphModule, example_inputs: list[torch.Tensor], *, options: dict[str, Any] | None = None) -> Callable[..., Any]:
    """torch._inductor's compile_fx on the captured graph; `options` are patches of its configuration."""
    compiled = compile_fx(gm, example_inputs, config_patches=options or None)
    return like_eager(gm, compiled, random_like_eager=False)
