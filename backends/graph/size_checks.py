"""SizeChecks: whether data-dependent numbers are what a capture assumed of them, such as that two
masks choose equally many elements. Checked while the graph runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx

from ...records import record

Check = Callable[..., bool]


@record
class Reading:
    """How a number is read: from a node's result, or from the list of its elements (`as_list`)."""

    node: torch.fx.Node
    as_list: bool
    read: Callable[[Any], Any]


class SizeChecks:
    """The target of a node that is given the tensors whose sizes or values the numbers are, since a
    compiler may have replaced the numbers themselves. lists: positions of those whose elements are
    read. reads: the position of the tensor of each number, and how it is read. check: says of the
    numbers whether they are as assumed."""

    __name__ = "size_checks"

    def __init__(
        self, lists: Sequence[int], reads: Sequence[tuple[int, Callable[[Any], Any]]], check: Check
    ) -> None:
        self.lists, self.reads, self.check = frozenset(lists), tuple(reads), check

    def __call__(self, *operands: Any) -> bool:
        given = [one.tolist() if at in self.lists else one for at, one in enumerate(operands)]
        return self.check(*[read(given[at]) for at, read in self.reads])


def check_node(
    readings: Sequence[Reading], check: Check
) -> tuple[SizeChecks, tuple[torch.fx.Node, ...]]:
    """The target and the arguments of a node that checks numbers."""
    operands: dict[tuple[torch.fx.Node, bool], int] = {}
    reads = [
        (operands.setdefault((one.node, one.as_list), len(operands)), one.read) for one in readings
    ]
    lists = [at for (_, as_list), at in operands.items() if as_list]
    return SizeChecks(lists, reads, check), tuple(node for node, _ in operands)


@record
class SizeOf:
    """Reads the size of a dimension."""

    dim: int

    def __call__(self, tensor: torch.Tensor) -> int:
        return tensor.size(self.dim)


def read_number(number: Any) -> Any:
    """Reads a number that is passed as it is."""
    return number
