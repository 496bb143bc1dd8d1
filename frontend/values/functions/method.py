"""Bound methods."""

from __future__ import annotations

import types
from typing import Any

from ....guards.guard import Kind
from ....guards.source import AttrSource, Source
from ..base import Args, Kwargs, PendingCall, Value
from ..constant import Constant
from ..context import TraceContext
from ..emitter import Emitter
from ..modes.context_manager import ManagerMethod
from ..modes.mode_manager import ModeManager
from ..operation import Operation
from ..registry import wraps


class MethodValue(Value):
    """A function (or any callable) bound to its first argument."""

    __slots__ = ("receiver", "function")
    cls = types.MethodType

    def __init__(self, receiver: Value, function: Value, source: Source | None = None) -> None:
        super().__init__(source)
        self.receiver, self.function = receiver, function

    def key(self, tx: TraceContext) -> Any:
        return (self.receiver.key(tx), self.function.key(tx))

    def attribute(self, tx: TraceContext, name: str) -> Value:
        if name == "__self__":
            return self.receiver
        if name == "__func__":
            return self.function
        if name == "__get__" and hasattr(types.MethodType, "__get__"):
            return tx.make.bound_method(self, name)
        return self.function.attribute(tx, name)

    def method(self, tx: TraceContext, name: str, args: Args, kwargs: Kwargs) -> Value:
        # a bound method stays bound; before 3.13 the function's __get__ was called
        if name == "__get__" and hasattr(types.MethodType, "__get__"):
            return self
        return super().method(tx, name, args, kwargs)

    def tail_call(self, tx: TraceContext, args: Args, kwargs: Kwargs) -> PendingCall:
        return PendingCall(self.function, [self.receiver, *args], kwargs)

    def reconstruct(self, emit: Emitter) -> None:
        self.function.reconstruct_bound(emit, self.receiver)

    def compare(self, tx: TraceContext, op: Operation, other: Value) -> Value | None:
        if not op.is_equality or not isinstance(other, MethodValue):
            return None
        pairs = (self.receiver, other.receiver), (self.function, other.function)
        return Constant(op.answer(all(tx.objects.is_same(*pair) for pair in pairs)))


@wraps(types.MethodType)
def wrap_method(tx: TraceContext, obj: types.MethodType, source: Source | None) -> Value:
    tx.guards.add(source, Kind.TYPE, types.MethodType)
    receiver = tx.wrap(obj.__self__, source and AttrSource(source, "__self__"))
    if isinstance(receiver, ModeManager) and obj.__func__.__name__ in receiver.methods:
        return ManagerMethod(receiver, obj.__func__.__name__)
    return MethodValue(
        receiver, tx.wrap(obj.__func__, source and AttrSource(source, "__func__")), source
    )


def is_cython_function(obj: Any) -> bool:
    """Whether an object is a function written in Cython, such as those of numpy.random. Each
    version of Cython has a type of its own for them, of this name."""
    return type(obj).__name__ == "cython_function_or_method"
