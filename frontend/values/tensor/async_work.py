"""What a collective of torch.distributed returns under async_op=True, while the frame that has
started it waits for it itself."""

from __future__ import annotations

from typing import Any

import torch

from ....errors import GraphBreak
from ..base import Args, CannotReconstruct, Kwargs, Value
from ..constant import Constant
from ..context import TraceContext
from ..emitter import Emitter
from .tensor import TensorValue


class AsyncWork(Value):
    """The work of a collective that writes `result`. Any use but `.wait()` leaves the collective to
    Python."""

    __slots__ = ("result", "created_at")
    break_reason = "unknown-call"

    def __init__(self, result: TensorValue, created_at: int) -> None:
        super().__init__()
        self.result, self.created_at = result, created_at

    def python_type(self) -> type:
        found: type = torch.distributed.Work
        return found

    def describe(self) -> str:
        return "the work of a collective"

    def is_none(self) -> bool:
        return False

    def attribute(self, tx: TraceContext, name: str) -> Value:
        if name == "wait":
            return tx.make.bound_method(self, name)
        raise self.stop(f".{name} of the work of a collective")

    def method(self, tx: TraceContext, name: str, args: Args, kwargs: Kwargs) -> Value:
        if name != "wait" or args or kwargs:
            raise self.stop(f".{name}() of the work of a collective")
        wait_for(tx, self.result)
        return Constant(True)

    def stop(self, what: str) -> GraphBreak:
        """A break before the collective."""
        stop = GraphBreak("unknown-call", what)
        stop.position = self.created_at
        return stop

    def reconstruct(self, emit: Emitter) -> None:
        raise CannotReconstruct(self)


def wait_for(tx: TraceContext, tensor: TensorValue) -> None:
    """Adds a wait for the collective whose result the tensor is."""
    operators: Any = torch.ops._c10d_functional
    tx.graph.raw_call(operators.wait_tensor, (tensor.node,))
