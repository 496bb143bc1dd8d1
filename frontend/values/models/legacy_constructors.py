"""torch.Tensor(...), torch.FloatTensor(...), torch.LongTensor(...) and the like, and Tensor.new():
of numbers in a list they are torch.tensor() with a dtype, of sizes torch.empty()."""

from __future__ import annotations

from typing import Any

import torch

from ....errors import GraphBreak
from ..base import Value
from ..constant import Constant
from ..containers.sequence import Sequence, TupleValue
from ..context import TraceContext
from ..registry import method, models
from ..tensor.tensor import TensorValue
from .tensor_data import numbers_in

CLASSES: dict[Any, torch.dtype] = {
    torch.FloatTensor: torch.float32,
    torch.DoubleTensor: torch.float64,
    torch.HalfTensor: torch.float16,
    torch.BFloat16Tensor: torch.bfloat16,
    torch.LongTensor: torch.int64,
    torch.IntTensor: torch.int32,
    torch.ShortTensor: torch.int16,
    torch.CharTensor: torch.int8,
    torch.ByteTensor: torch.uint8,
    torch.BoolTensor: torch.bool,
}


def _class(cls: Any) -> None:
    @models(cls)
    def make(tx: TraceContext, *args: Value, **kwargs: Value) -> Value:
        given = [tx.look(arg) for arg in args]
        dtype = Constant(CLASSES.get(cls, torch.get_default_dtype()))
        how: dict[str, Value] = {"dtype": dtype, "device": Constant("cpu")}
        if not kwargs and given and all(one.python_type() is int for one in given):
            return tx.wrap(torch.empty, None).call(tx, given, how)
        if not kwargs and len(given) == 1 and holds_numbers(tx, given[0]):
            return tx.wrap(torch.tensor, None).call(tx, given, how)
        raise GraphBreak("unknown-call", f"class {cls.__name__}")


for _cls in CLASSES:
    _class(_cls)
if torch.Tensor().device.type == "cpu":  # which torch.set_default_tensor_type() may change
    _class(torch.Tensor)


def holds_numbers(tx: TraceContext, data: Value) -> bool:
    """Whether data is a list or tuple of numbers, or of others of equal lengths."""
    if not isinstance(data, Sequence) or data.python_type() not in (list, tuple):
        return False
    return not data.items or numbers_in(tx, data) is not None


@method(torch.Tensor, "new")
def tensor_new(tx: TraceContext, self: TensorValue, *args: Value) -> Value:
    """Tensor.new(*sizes), or Tensor.new(numbers in a list)."""
    given = [tx.look(arg) for arg in args]
    if all(issubclass(one.python_type(), int) for one in given):
        sizes: Value = TupleValue(list(given) or [Constant(0)])
    elif len(given) == 1 and given[0].python_type() is torch.Size:
        sizes = given[0]
    elif len(given) == 1 and holds_python_numbers(tx, given[0]):
        return self.method(tx, "new_tensor", list(given), {})
    else:
        raise self.unsupported_use("Tensor.new")
    return self.method(tx, "new_empty", [sizes], {})


def holds_python_numbers(tx: TraceContext, data: Value) -> bool:
    """Whether data is a list or tuple of Python's numbers, or of others of equal lengths."""
    if not holds_numbers(tx, data):
        return False
    found = numbers_in(tx, data)
    return found is None or all(item.python_type() in (int, float) for item in found[1])
