"""SizeChecks: whether numbers that are only known while a graph runs are what its capture took for
granted, such as that two masks choose equally many elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

Check = Callable[..., bool]


class SizeChecks:
    """The target of a node that is given the tensors whose sizes or values the numbers are, since a
    compiler may have replaced the numbers themselves. reads: take the number from each. checks:
    functions, each with the positions of its arguments among the numbers."""

    __name__ = "size_checks"

    def __init__(
        self,
        reads: Sequence[Callable[[Any], int]],
        checks: Sequence[tuple[Check, tuple[int, ...]]],
    ) -> None:
        self.reads, self.checks = tuple(reads), tuple(checks)

    def __call__(self, *operands: Any) -> bool:
        numbers = [read(one) for read, one in zip(self.reads, operands, strict=True)]
        return all(check(*[numbers[at] for at in positions]) for check, positions in self.checks)


@dataclass(frozen=True)
class SizeOf:
    """Reads the size of a dimension."""

    dim: int

    def __call__(self, tensor: torch.Tensor) -> int:
        return tensor.size(self.dim)


@dataclass(frozen=True)
class NumberAt:
    """Reads an element of a tensor without dimensions (None), or of a list's."""

    index: int | None

    def __call__(self, tensor: torch.Tensor) -> Any:
        return (tensor if self.index is None else tensor[self.index]).item()


def itself(number: int) -> int:
    """Reads a number that the graph was given."""
    return number
