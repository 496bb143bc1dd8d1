"""Gradients by formulas of ours, for operators whose derivative torch takes apart into many steps
where it cannot see the values, as in a trace.

On a GPU, a step of the formula takes one launch for all rows. (On a CPU, torch's own are faster.)
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.fx
from torch.overrides import TorchFunctionMode

from ..graph.node_targets import name_of


def own_gradients(node: torch.fx.Node) -> AbstractContextManager[Any]:
    """A context in which to call the node, so that autograd records our formula for its gradient
    where there is one."""
    return OwnGradients() if name_of(node) in FUNCTIONS else nullcontext()


class OwnGradients(TorchFunctionMode):
    """Calls the functions in FUNCTIONS in place of torch's functions of the same names."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name = getattr(function, "__name__", "")
        return FUNCTIONS.get(name, function)(*args, **kwargs or {})


class CumulativeProduct(torch.autograd.Function):
    """torch.cumprod(values, dim) for floating-point tensors, with a gradient in few steps."""

    @staticmethod
    def forward(values: torch.Tensor, dim: int) -> torch.Tensor:
        return torch.cumprod(values, dim)

    @staticmethod
    def setup_context(context: Any, inputs: Any, output: torch.Tensor) -> None:
        values, context.dim = inputs
        context.save_for_backward(values, output)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        """With x the values and g the gradient: the product of all x before k, times r[k], where
        r[k] = g[k] + x[k + 1] r[k + 1]. This recurrence is solved in steps that double the range
        which each r[k] covers, as in Hillis and Steele, "Data parallel algorithms" (1986)."""
        values, products, covered = (
            tensor.movedim(context.dim, -1) for tensor in (*context.saved_tensors, gradient)
        )
        length = values.shape[-1]
        factors, reach = values[..., 1:], 1
        while reach < length:
            near, far = covered.split([length - reach, reach], -1)
            covered = torch.cat([near + factors * covered[..., reach:], far], -1)
            factors = factors[..., :-reach] * factors[..., reach:]
            reach *= 2
        before = torch.cat([torch.ones_like(products[..., :1]), products[..., :-1]], -1)
        return (before * covered).movedim(-1, context.dim).contiguous(), None


def cumprod(
    input: torch.Tensor, dim: int, *, dtype: torch.dtype | None = None, out: None = None
) -> torch.Tensor:
    """torch.cumprod, with our gradient on a GPU."""
    values = input if dtype is None else input.to(dtype)
    if (
        not values.is_cuda
        or not values.is_floating_point()
        or not values.dim()
        or values.shape[dim] == 0
        or out is not None
    ):
        return torch.cumprod(input, dim, dtype=dtype, out=out)
    return CumulativeProduct.apply(values, dim)


# by the names of torch's functions, which take the same arguments and give the same results
FUNCTIONS: dict[str, Callable[..., Any]] = {"cumprod": cumprod}
