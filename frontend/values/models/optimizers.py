"""torch.optim: what its steps calculate with Python's numbers of tensors, captured without taking the numbers."""
from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING

import torch
from torch.optim import asgd, optimizer, radam

from ..base import Value
from ..constant import Constant
from ..function import FunctionValue
from ..registry import models
from ..sequence import ListValue
from ..tensor import TensorValue

if TYPE_CHECKING:
    from ..context import TraceContext


@models(optimizer._get_value)
def get_value(tx: TraceContext, number: Value) -> Value:
    """The tensor instead of its number, as precise as Python calculates."""
    if isinstance(number, TensorValue) and number.fake.dtype in (torch.float32, torch.float16, torch.bfloat16):
        return number.method(tx, "double", [], {})
    return number


def _without_branches(function: FunctionType) -> None:
    """Of a step that branches on how many there were, the way that torch takes for CUDA graphs, with counts as precise as Python's."""

    @models(function)
    def step(tx: TraceContext, *columns: Value, **settings: Value) -> Value:
        inner = tx.wrap(function, None)
        assert isinstance(inner, FunctionValue)
        if any(settings[name].truth(tx) for name in ("capturable", "differentiable")):
            return tx.inline(inner, list(columns), settings)
        counts = tx.unpack(columns[-1])
        precise: list[Value] = [count.method(tx, "double", [], {}) for count in counts]
        result = tx.inline(inner, [*columns[:-1], ListValue(precise)], {**settings, "capturable": Constant(True)})
        for count in counts:
            count.method(tx, "add_", [Constant(1)], {})
        return result


for _function in (radam._single_tensor_radam, radam._multi_tensor_radam, asgd._single_tensor_asgd, asgd._multi_tensor_asgd):
    _without_branches(_function)
