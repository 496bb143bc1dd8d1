"""Functions that torch's optimizers and clipping call before they work on lists of tensors."""

from __future__ import annotations

import torch

from ....errors import GraphBreak
from ..base import Value
from ..constant import Constant
from ..containers.list import ListValue
from ..containers.sequence import TupleValue
from ..context import TraceContext
from ..registry import models
from ..tensor.tensor import TensorValue


@models(torch._C._group_tensors_by_device_and_dtype)
def group_tensors(tx: TraceContext, columns: Value, with_indices: Value | None = None) -> Value:
    """Groups by device and dtype of the first column's tensors. The order of the groups is torch's
    own."""
    lists = [column.unpack(tx) for column in columns.unpack(tx)]
    if not lists or not lists[0] or any(len(column) not in (0, len(lists[0])) for column in lists):
        raise GraphBreak("exception-leaves", "RuntimeError of _group_tensors_by_device_and_dtype")
    first = [tx.look(item) for item in lists[0]]
    others = [tx.look(item) for column in lists[1:] for item in column]
    absent = [other.is_none() for other in others]
    if not all(isinstance(item, TensorValue) for item in first) or not all(
        none or isinstance(other, TensorValue) for none, other in zip(absent, others, strict=True)
    ):
        raise GraphBreak("unknown-call", "_group_tensors_by_device_and_dtype() of these")
    fakes: list[torch.Tensor | None] = [
        item.fake for item in first if isinstance(item, TensorValue)
    ]
    groups = torch._C._group_tensors_by_device_and_dtype([fakes], True)
    indexed = with_indices is not None and with_indices.truth(tx)
    pairs = []
    for (device, dtype), (_, where) in groups.items():
        parts: list[Value] = [
            ListValue([column[i] for i in where] if column else []) for column in lists
        ]
        indices: list[Value] = [Constant(i) for i in where] if indexed else []
        pairs.append(
            (
                TupleValue([Constant(device), Constant(dtype)]),
                TupleValue([ListValue(parts), ListValue(indices)]),
            )
        )
    made: Value = tx.make.dict_of(list(pairs))
    return made
