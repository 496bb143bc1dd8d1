"""Batch norms in training, decomposed: one kernel computes the statistics and updates the running
ones, and another normalizes, fused with what follows, such as a ReLU. torch's operator reads the
images more often."""

from __future__ import annotations

from typing import Any

import torch
from torch._decomp import decomposition_table

from .lower.pointwise import computation_of

aten = torch.ops.aten
WITH_RUNNING = aten._native_batch_norm_legit_functional.default
ALONE = aten._native_batch_norm_legit.no_stats
# Of so many elements the mean is first estimated from a sample, which saves one of two readings.
MANY = 1 << 20
SAMPLE = 64  # elements of a channel


def with_running_statistics(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    running_mean: torch.Tensor,
    running_var: torch.Tensor,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    """x: [batch, channels, ...]. Returns the normalized x, the mean and the inverse deviation of
    each channel, and the new running statistics."""
    if not training:
        return decomposition_table[WITH_RUNNING](
            x, weight, bias, running_mean, running_var, training, momentum, eps
        )
    result, mean, var, inverse = normalize_channels(x, weight, bias, eps)
    count = x.numel() / x.shape[1]
    new_mean = momentum * mean + (1 - momentum) * running_mean
    new_var = momentum * (var * (count / (count - 1))) + (1 - momentum) * running_var
    return (
        result,
        *as_saved(x, mean, inverse),
        new_mean.to(running_mean.dtype),
        new_var.to(running_var.dtype),
    )


def alone(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[torch.Tensor, ...]:
    """batch_norm without running statistics, which is also how torch computes instance norms."""
    result, mean, _, inverse = normalize_channels(x, weight, bias, eps)
    return result, *as_saved(x, mean, inverse)


def normalize_channels(
    x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float
) -> tuple[torch.Tensor, ...]:
    """The normalized x; the mean, the variance and the inverse deviation of each channel."""
    over = [dim for dim in range(x.dim()) if dim != 1]
    along = [-1 if dim == 1 else 1 for dim in range(x.dim())]
    work = x.to(computation_of(x.dtype))
    mean, var = moments_near(estimated_mean(work, over), work, over)
    inverse = (var + eps).rsqrt()
    result = (work - mean) * inverse
    if weight is not None:
        result = result * weight.view(along)
    if bias is not None:
        result = result + bias.view(along)
    return result.to(x.dtype), mean.squeeze(over), var.squeeze(over), inverse.squeeze(over)


def moments_near(
    estimate: torch.Tensor, work: torch.Tensor, over: list[int]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and variance, from the distances to an estimate of the mean, which are added up in one
    reading: the variance is the mean square of these less the square of their mean.

    The nearer the estimate, the less cancels (T. Chan, G. Golub, R. LeVeque, "Algorithms for
    Computing the Sample Variance", 1983, on shifted data).
    """
    distance = work - estimate
    error = distance.mean(over, keepdim=True)
    squares = distance.square().mean(over, keepdim=True)
    # as var_mean does, but for infinite means, which are nan there and infinite in torch's norms
    mean = torch.where(estimate.isinf(), estimate, estimate + error)
    return mean, (squares - error.square()).clamp_min(0)


def estimated_mean(work: torch.Tensor, over: list[int]) -> torch.Tensor:
    """The mean over all but the channels, rounded; of many elements, that of a sample which is
    spread evenly over them, without its largest and its smallest element."""
    count = work.numel()
    if not isinstance(count, int) or count < MANY:
        return work.mean(over, keepdim=True)
    each = round(SAMPLE ** (1 / len(over)))
    for dim in over:
        step = -(-work.shape[dim] // each)
        work = work[(slice(None),) * dim + (slice(step // 2, None, step),)]
    total, left = work.sum(over, keepdim=True), work.numel() // work.shape[1] - 2
    largest, smallest = work.amax(over, keepdim=True), work.amin(over, keepdim=True)
    estimate = (total - largest - smallest) / left if left > 0 else total
    # with an infinite element in the sample the estimate is nan (inf - inf), and the total infinite
    return torch.where(estimate.isnan(), total, estimate)


def as_saved(x: torch.Tensor, *statistics: torch.Tensor) -> list[torch.Tensor]:
    """Statistics in the dtype in which torch saves them for the backward pass."""
    return [item.to(x.dtype) if x.device.type == "cpu" else item for item in statistics]
