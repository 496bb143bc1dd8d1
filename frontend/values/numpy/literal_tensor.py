"""Numbers of NumPy's that the program has written down, as a tensor."""

from __future__ import annotations

from typing import Any

import torch

from ....errors import GraphBreak
from ....guards.source.tensors import ARRAY_DTYPES
from ..base import Value
from ..constant import Constant
from ..context import TraceContext
from ..tensor.tensor import TensorValue

MOST_LITERALS = 256  # numbers of an array that the program writes down


def literal_tensor(tx: TraceContext, array: Any) -> TensorValue:
    """A new tensor of the numbers of an array that the program has written down."""
    if array.dtype.name not in ARRAY_DTYPES or array.size > MOST_LITERALS:
        raise GraphBreak("unsupported-value", f"an array of {array.size} {array.dtype}")
    dtype = Constant(getattr(torch, array.dtype.name))
    numbers = (
        tx.wrap(array.tolist(), None) if array.ndim == 0 else list_of_numbers(tx, array.tolist())
    )
    tensor = tx.graph.function(torch.tensor, numbers, dtype=dtype)
    assert isinstance(tensor, TensorValue)
    return tensor


def list_of_numbers(tx: TraceContext, numbers: list[Any]) -> Value:
    return tx.make.list_of(
        [list_of_numbers(tx, one) if isinstance(one, list) else Constant(one) for one in numbers]
    )
