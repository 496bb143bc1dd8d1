"""Maximum pooling.

Over a whole sequence or image of varying sizes, torch's operator needs its window as numbers, so
each size would be compiled. Adaptive pooling to one element picks the same elements, in the same
order, and needs no sizes.

Of sequences without gradients, torch has a kernel for the CPU with contiguous results, which it
does not use for fake tensors: their results have the layout of the input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from ..base import Value
from ..constant import Constant
from ..containers.sequence import Sequence
from ..context import TraceContext
from ..registry import models
from ..tensor.symbolic_number import SymbolicNumber
from ..tensor.tensor import TensorValue


def _function(function: Callable[..., Any], adaptive: Callable[..., Any], dims: int) -> None:
    @models(function)
    def max_pool(
        tx: TraceContext, input: Value, kernel_size: Value, *args: Value, **kwargs: Value
    ) -> Value:
        if not args and not kwargs and covers_all(tx, tx.look(input), tx.look(kernel_size), dims):
            return tx.graph.function(adaptive, input, Constant(1))
        indices = kwargs.get("return_indices", args[4] if len(args) > 4 else Constant(False))
        if dims == 1 and not indices.truth(tx) and makes_contiguous(tx, tx.look(input)):
            input = tx.graph.call("call_method", "contiguous", [input], {})
        return tx.graph.function(function, input, kernel_size, *args, **kwargs)


_function(F.max_pool1d, F.adaptive_max_pool1d, 1)
_function(torch.max_pool1d, F.adaptive_max_pool1d, 1)
_function(F.max_pool2d, F.adaptive_max_pool2d, 2)


def covers_all(tx: TraceContext, input: Value, window: Value, dims: int) -> bool:
    """Whether a window with a size that varies has the sizes of the input's last dimensions. Only
    of a contiguous input: of others the results can have other strides."""
    if not isinstance(input, TensorValue) or input.fake.dim() <= dims:
        return False
    sizes = [tx.look(one) for one in window.items] if isinstance(window, Sequence) else [window]
    if len(sizes) != dims or not any(isinstance(size, SymbolicNumber) for size in sizes):
        return False
    ends = input.fake.shape[-dims:]
    return input.fake.is_contiguous() and all(map(equals_size, sizes, ends))


def equals_size(number: Value, size: int | torch.SymInt) -> bool:
    """Whether a number is this size whatever the symbols are."""
    if isinstance(number, SymbolicNumber) and isinstance(size, torch.SymInt):
        return bool(number.sym.node.expr == size.node.expr)
    return isinstance(number, Constant) and isinstance(size, int) and number.object == size


def makes_contiguous(tx: TraceContext, input: Value) -> bool:
    """Whether results are contiguous though this input is not."""
    if not isinstance(input, TensorValue) or input.fake.device.type != "cpu":
        return False
    if input.fake.is_contiguous():
        return False
    tx.modes.require_known_grad_mode()
    return not (input.fake.requires_grad and torch.is_grad_enabled())
