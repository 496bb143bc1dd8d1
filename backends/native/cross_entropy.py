"""The parts of a cross entropy, decomposed so that training stores nothing of the logits' size.

The forward pass keeps the logits themselves, which are an input, and two numbers of each row: its
largest logit and the logarithm of the sum of the exponentials. From these the backward pass
computes the log-probabilities again, element by element, next to where they are read. The gradient
of the negative log-likelihood is a comparison with the label instead of a tensor of zeros into
which one number of each row is written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten
MEAN = 1  # the number that torch's operators have for reduction="mean"


def log_softmax(x: torch.Tensor, dim: int, half_to_float: bool) -> Any:
    """In float32 for halves, as torch computes it."""
    if not x.dim() or 0 in x.shape:
        return NotImplemented
    halves = x.dtype in (torch.float16, torch.bfloat16)
    work = x.float() if halves else x
    shifted = work - work.amax(dim, keepdim=True)
    result = shifted - shifted.exp().sum(dim, keepdim=True).log()
    return result if half_to_float or not halves else result.to(x.dtype)


def nll_loss_backward(
    gradient: torch.Tensor,
    x: torch.Tensor,
    labels: torch.Tensor,
    weight: torch.Tensor | None,
    reduction: int,
    ignore_index: int,
    total_weight: torch.Tensor,
) -> torch.Tensor:
    dim = 0 if x.dim() < 2 else 1
    if reduction == MEAN:
        gradient = gradient / total_weight
    labels = labels.unsqueeze(dim)
    along = [1] * x.dim()
    along[dim] = x.shape[dim]
    if x.dim() > gradient.dim() > 0:
        gradient = gradient.unsqueeze(dim)
    if weight is not None:
        gradient = gradient * weight.reshape(along)
    classes = torch.arange(x.shape[dim], device=x.device).reshape(along)
    counts = (classes == labels) & (labels != ignore_index)
    return torch.where(counts, -gradient, 0.0)


CROSS_ENTROPY: dict[Any, Callable[..., Any]] = {
    aten._log_softmax.default: log_softmax,
    aten.nll_loss_backward.default: nll_loss_backward,
    aten.nll_loss2d_backward.default: nll_loss_backward,
}
