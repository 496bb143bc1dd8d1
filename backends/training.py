"""`aot_eager`: forward and backward as functional ATen graphs through aot_autograd, run by torch's own kernels."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.fx
from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func
from torch._functorch.partitioners import min_cut_rematerialization_partition

from .eager_gradients import ahead_of_time
from .registry import register_backend


def _run(gm: torch.fx.GraphModule, example_inputs: list[torch.Tensor]) -> Callable[..., Any]:
    return make_boxed_func(gm.forward)


@register_backend("aot_eager")
def aot_eager(gm: torch.fx.GraphModule, example_inputs: list[torch.Tensor]) -> Callable[..., Any]:
    """aot_autograd with a compiler that compiles nothing."""
    return ahead_of_time(
        gm,
        lambda: aot_module_simplified(
            gm, example_inputs, fw_compiler=_run, bw_compiler=_run, partition_fn=min_cut_rematerialization_partition
        ),
        random_like_eager=True,
    )
