"""`torchscript`: the graph traced by torch.jit and optimised for inference."""
from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor

from .registry import register_backend


@register_backend("torchscript", training=False)
def torchscript(gm: torch.fx.GraphModule, example_inputs: list[Any], *, report: Callable[[str], Any] = print) -> Callable[..., Any]:
    """Parameters are attributes of the traced module, so that freezing folds what depends on them alone, as long as nobody
    writes to them: a call that finds one changed runs the graph as it is. A graph whose sizes are symbols runs in eager."""
    if any(not isinstance(item, torch.Tensor) or isinstance(item, FakeTensor) for item in example_inputs):
        report("runs in eager: torch.jit traces with real tensors, and sizes of this graph are symbols")
        return gm.forward
    written = [bool(node.meta.get("mutated")) for node in gm.graph.nodes if node.op == "placeholder"]
    kept = [isinstance(item, torch.nn.Parameter) and not wrote for item, wrote in zip(example_inputs, written, strict=True)]
    fixed: dict[int, torch.Tensor] = {index: item for index, item in enumerate(example_inputs) if kept[index]}
    given = [index for index in range(len(example_inputs)) if index not in fixed]
    count = len(example_inputs)

    class Whole(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for index, item in fixed.items():
                self.register_buffer(f"fixed_{index}", item.detach())

        def forward(self, *args: Any) -> Any:
            inputs: list[Any] = [None] * count
            for index, arg in zip(given, args, strict=True):
                inputs[index] = arg
            for index in fixed:
                inputs[index] = getattr(self, f"fixed_{index}")
            return gm.forward(*inputs)

    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # torch.jit is old, and says so
        traced = torch.jit.trace(Whole().eval(), [example_inputs[index].detach() for index in given], check_trace=False)
        frozen = torch.jit.freeze(traced)
    return Frozen(frozen, gm.forward, given, fixed)


class Frozen:
    """Code that has inputs folded into it, while they are what they were; `otherwise` for the rest of the calls."""

    def __init__(self, folded: Callable[..., Any], otherwise: Callable[..., Any], given: list[int], fixed: dict[int, torch.Tensor]) -> None:
        self.folded, self.otherwise, self.given = folded, otherwise, given
        self.fixed = {index: (item.data_ptr(), item.detach(), item._version) for index, item in fixed.items()}

    def __call__(self, *args: Any) -> Any:
        for index, (address, held, version) in self.fixed.items():
            if args[index].data_ptr() != address or held._version != version:
                return self.otherwise(*args)
        results = self.folded(*[args[index] for index in self.given])
        return results if isinstance(results, tuple) else (results,)
