"""The manager that enables derivatives in forward mode. As in torch, making it enters it; it is
used inside a level of torch.func."""

from __future__ import annotations

import types

from torch.autograd import forward_ad

from ..base import Value
from ..constant import Constant
from ..context import TraceContext


class ForwardMode(Value):
    """torch.autograd.forward_ad._set_fwd_grad_enabled(mode). It does not survive a break, which is
    made before the level instead."""

    __slots__ = ("created_at",)

    def __init__(self, created_at: int) -> None:
        super().__init__()
        self.created_at = created_at

    def python_type(self) -> type:
        return forward_ad._set_fwd_grad_enabled

    def attribute(self, tx: TraceContext, name: str) -> Value:
        if name in ("__enter__", "__exit__"):
            return ForwardModeMethod(self, name)
        raise self.unsupported_use(f"attribute {name}")


class ForwardModeMethod(Value):
    """Its __enter__, which does nothing, or __exit__."""

    __slots__ = ("created_at", "name", "of")

    def __init__(self, of: ForwardMode, name: str) -> None:
        super().__init__()
        self.of, self.created_at, self.name = of, of.created_at, name

    def python_type(self) -> type:
        return types.MethodType

    def call(self, tx: TraceContext, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if self.name == "__exit__":
            tx.modes.leave_level(tx, "forward")
        return Constant(None)
