"""`aot_eager`: forward and backward as functional ATen graphs through aot_autograd, run by torch's own kernels.

Where aot_autograd cannot say beforehand what eager's backward pass does, the graph runs under eager's autograd."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.fx
from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException

from .eager_gradients import checks_in_backward, like_eager
from .registry import register_backend


def _run(gm: torch.fx.GraphModule, example_inputs: list[torch.Tensor]) -> Callable[..., Any]:
    return make_boxed_func(gm.forward)


# What aot_autograd raises for a backward pass that depends on values, or that has no functional form.
UNTRACEABLE = (DynamicOutputShapeException, DataDependentOutputException, NotImplementedError)


@register_backend("aot_eager")
def aot_eager(gm: torch.fx.GraphModule, example_inputs: list[torch.Tensor]) -> Callable[..., Any]:
    """aot_autograd with a compiler that compiles nothing."""
    if checks_in_backward(gm):
        return gm.forward
    try:
        compiled = aot_module_simplified(
            gm, example_inputs, fw_compiler=_run, bw_compiler=_run, partition_fn=min_cut_rematerialization_partition
        )
    except UNTRACEABLE:
        return gm.forward
    return like_eager(gm, compiled, random_like_eager=True)
