"""TransformGetItemToIndex, torch's mode for score_mod and mask_mod: in it `bias[h]` takes a tensor
as an index, and reads no number."""

from __future__ import annotations

import sys

from ..base import Value
from ..constant import Constant
from ..context import TraceContext
from ..modes.context_manager import OneFrameManager
from ..registry import models

MODULE, NAME = "torch._dynamo._trace_wrapped_higher_order_op", "TransformGetItemToIndex"


class IndexingByTensors(OneFrameManager):
    """The mode, which the graph does not need: its nodes are those of the indices."""

    __slots__ = ("cls",)

    def __init__(self, created_at: int) -> None:
        super().__init__(created_at)
        self.cls = getattr(sys.modules[MODULE], NAME)

    def enter(self, tx: TraceContext) -> Value:
        tx.modes.indexes_by_tensors += 1
        return self

    def exit(self, tx: TraceContext) -> Value:
        tx.modes.indexes_by_tensors -= 1
        return Constant(None)


@models((MODULE, NAME))
def indexing_by_tensors(tx: TraceContext) -> Value:
    return IndexingByTensors(tx.frames.break_position())
