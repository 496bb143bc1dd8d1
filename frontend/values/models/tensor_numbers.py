"""Numbers read from a tensor: item(), tolist(), int() and float() of it. They are nodes of the
graph; what depends on them has symbols, as no value is known before the graph runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch._C._functorch import is_functorch_wrapped_tensor

from ....errors import GraphBreak
from ..base import Value
from ..registry import method
from ..tensor.symbolic_number import calculate
from ..tensor.tensor import TensorValue
from .optimizers import is_in_step_with_numbers

if TYPE_CHECKING:
    from ..context import TraceContext

LONGEST = 64  # list of numbers, each of which has a symbol
INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)
FRACTIONS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def can_be_node(tx: TraceContext, tensor: TensorValue) -> bool:
    """Whether reading a tensor's numbers can be a node of the graph. A bool is left to Python, as
    it is read for a branch."""
    wanted, fake = tx.options.capture_scalar_outputs, tensor.fake
    return (
        wanted is not False
        and (bool(wanted) or fake.device.type == "cpu")
        and fake.dtype in (*INTEGERS, *FRACTIONS)
        and not is_functorch_wrapped_tensor(fake)
    )


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
    if not can_be_node(tx, self) or not 0 < count <= LONGEST or len(sizes) > 1:
        raise reads(".tolist()", self)
    return tx.graph.call("call_method", "tolist", [self], {})


def number_of(tx: TraceContext, cls: type, tensor: TensorValue) -> Value:
    """int(tensor) or float(tensor). A fraction that becomes an int is left to Python: no symbol
    stands for each of its ints."""
    if cls is complex or (cls is int and tensor.fake.dtype not in INTEGERS):
        raise reads(f"{cls.__name__}()", tensor)
    number = item(tx, tensor)
    return calculate(tx, cls, number) or number


@method(torch.Tensor, "__int__")
def tensor_int(tx: TraceContext, self: TensorValue) -> Value:
    return number_of(tx, int, self)


@method(torch.Tensor, "__float__")
def tensor_float(tx: TraceContext, self: TensorValue) -> Value:
    return number_of(tx, float, self)
