"""`inductor`: torch's own compiler, behind an adapter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.fx
from torch._inductor import config, list_mode_options
from torch._inductor.compile_fx import compile_fx

from .autograd.compiled_node import ahead_of_time
from .graph.passes.functional import prepare_for_tracing
from .registry import register_backend


@register_backend("inductor", options=config.get_config_copy)
def inductor(
    gm: torch.fx.GraphModule,
    example_inputs: list[torch.Tensor],
    *,
    mode: str = "default",
    options: dict[str, Any] | None = None,
) -> Callable[..., Any]:
    """torch._inductor's compile_fx on the captured graph; `mode` stands for patches of its
    configuration, `options` are more."""
    patches = {**list_mode_options(mode), **(options or {})}

    def build(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        compiled = compile_fx(prepare_for_tracing(gm), example_inputs, config_patches=patches)
        assert callable(compiled)  # it gives sources and weights where it exports
        return compiled

    return ahead_of_time(gm, example_inputs, build, random_like_eager=False)
