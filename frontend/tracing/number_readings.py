"""Where the number of a symbol can be read when the graph has run."""

from __future__ import annotations

import operator
from typing import Any

import torch
import torch.fx

from ...backends.graph.mutations import is_written
from ...backends.graph.node_targets import target_name
from ...backends.graph.size_checks import Reading, SizeOf, read_number
from ..values.context import TraceContext
from ..values.tensor.symbolic_number import SymbolicNumber
from ..values.tensor.tensor import TensorValue

READS = ("item", "tolist")  # methods that give Python's numbers


def where_to_read(tx: TraceContext, number: SymbolicNumber) -> Reading | None:
    """How the number can be read when the graph has run; None where the program has changed
    what it was read from."""
    if number.function is torch.Tensor.size:
        tensor, dim = number.operands
        assert isinstance(tensor, TensorValue)
        size = tensor.fake.shape[dim.constant()]
        same = isinstance(size, torch.SymInt) and size.node._expr == number.sym.node._expr
        return Reading(tensor.node, False, SizeOf(dim.constant())) if same else None
    if number.function is int and isinstance(number.operands[0], SymbolicNumber):
        return where_to_read(tx, number.operands[0])  # a bool that was read, as 0 or 1
    if number.node is None or number.source is not None:
        return Reading(tx.graph.argument(number)[0], False, read_number)
    read: Any = number.node
    take: Any = read_number
    if target_name(read.target) == "getitem":
        item: Any = read.args
        read, take = item[0], operator.itemgetter(item[1])
    of = read.args[0]
    if target_name(read.target) not in READS or not isinstance(of, torch.fx.Node):
        return None
    return None if is_written(of) else Reading(of, True, take)
