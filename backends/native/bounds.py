"""Checks on the CPU that positions are within a dimension, as eager does. Kernels use them
unchecked."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from .toolchain._launch import all_within

aten = torch.ops.aten
Reject = Callable[[Sequence[int], int, torch.Tensor], object]


def require(
    positions: torch.Tensor, shape: Sequence[int], dim: int, wraps: bool, reject: Reject
) -> torch.Tensor:
    """The positions, if all are within dimension `dim` of a tensor of this shape; wraps: negative
    ones count from the end. Otherwise `reject` calls torch's operator on zeros of that shape, which
    raises."""
    size = shape[dim]
    given = positions.contiguous()
    if not all_within(given, given.numel(), given.itemsize, -size if wraps else 0, size):
        reject(shape, dim, positions)
        raise IndexError(f"a position is out of range for dimension {dim} with size {size}")
    return positions


def zeros(shape: Sequence[int]) -> torch.Tensor:
    """Zeros that take no memory."""
    return torch.zeros(()).expand(shape)


def reject_index(shape: Sequence[int], dim: int, positions: torch.Tensor) -> None:
    aten.index.Tensor(zeros(shape), [*[None] * dim, positions])


def reject_index_select(shape: Sequence[int], dim: int, positions: torch.Tensor) -> None:
    aten.index_select(zeros(shape), dim, positions)


def reject_embedding(shape: Sequence[int], dim: int, positions: torch.Tensor) -> None:
    aten.embedding(zeros(shape), positions)


def reject_gather(shape: Sequence[int], dim: int, positions: torch.Tensor) -> None:
    """Raises the error of gather, and of all kinds of scatter, for these positions."""
    like = [*positions.shape]
    if like:
        like[dim] = shape[dim]
    aten.gather(zeros(like or shape), dim, positions)


def reject_index_add(shape: Sequence[int], dim: int, positions: torch.Tensor) -> None:
    source = [*shape]
    source[dim] = positions.numel()
    aten.index_add(zeros(shape), dim, positions, zeros(source))
