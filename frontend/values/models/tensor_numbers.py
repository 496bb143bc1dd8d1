"""Numbers read from a tensor: item(), tolist(), int() and float() of it. They are nodes of the
graph; what depends on them has symbols, as no value is known before the graph runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ....errors import GraphBreak
from ..base import Value
from ..registry import method
from ..tensor.read_number import INTEGERS, can_be_node
from ..tensor.symbolic_number import calculate
from ..tensor.tensor import TensorValue
from .optimizers import is_in_step_with_numbers

if TYPE_CHECKING:
    from ..context import TraceContext

LONGEST = 64  # list of numbers, each of which has a symbol


def reads(text: str, tensor: TensorValue) -> GraphBreak:
    """The break where Python reads the numbers."""
    return GraphBreak("data-dependent-value", f"`{text}` of {tensor.describe()}")


@method(torch.Tensor, "item")
def item(tx: TraceContext, self: TensorValue) -> Value:
    if is_in_step_with_numbers(tx):
        return self.method(tx, "double", [], {})
    if not can_be_node(tx, self):
        raise reads(".item()", self)
    return tx.graph.call("call_method", "item", [self], {})


@method(torch.Tensor, "tolist")
def tolist(tx: TraceContext, self: TensorValue) -> Value:
    sizes = self.fake.shape
    count = 1
    for size in sizes:
        if not isinstance(size, int):
            raise reads(".tolist()", self)
        count *= size
    numbers = can_be_node(tx, self) and self.fake.dtype is not torch.bool
    if not numbers or not 0 < count <= LONGEST or len(sizes) > 1:
        raise reads(".tolist()", self)
    return tx.graph.call("call_method", "tolist", [self], {})


def number_of(tx: TraceContext, cls: type, tensor: TensorValue) -> Value:
    """int(tensor) or float(tensor). A fraction that becomes an int is left to Python: no symbol
    stands for each of its ints."""
    whole = tensor.fake.dtype in INTEGERS
    if cls is complex or tensor.fake.dtype is torch.bool or (cls is int and not whole):
        raise reads(f"{cls.__name__}()", tensor)
    number = item(tx, tensor)
    if number.python_type() is cls:
        return number
    return calculate(tx, cls, number) or number


@method(torch.Tensor, "__int__")
def tensor_int(tx: TraceContext, self: TensorValue) -> Value:
    return number_of(tx, int, self)


@method(torch.Tensor, "__float__")
def tensor_float(tx: TraceContext, self: TensorValue) -> Value:
    return number_of(tx, float, self)
