"""NamedMethod: a method that was read from an object by its name, and not called yet."""

from __future__ import annotations

from .base import Args, Kwargs, Value
from .context import TraceContext
from .emitter import Emitter


class NamedMethod(Value):
    """`receiver.name`, of an object whose value implements its methods itself."""

    __slots__ = ("receiver", "name")

    def __init__(self, receiver: Value, name: str) -> None:
        super().__init__()
        self.receiver, self.name = receiver, name

    def call(self, tx: TraceContext, args: Args, kwargs: Kwargs) -> Value:
        return self.receiver.method(tx, self.name, args, kwargs)

    def reconstruct(self, emit: Emitter) -> None:
        emit.push(self.receiver)
        emit.builder.load_attr(self.name)
