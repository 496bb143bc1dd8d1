"""The common part of lists, tuples, dictionaries and sets, and their methods as objects."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from ....guards.source import Source
from ..base import Args, Kwargs, Value
from ..constant import Constant
from ..context import TraceContext
from ..emitter import Emitter
from ..identity_key import IdentityKey
from ..mutable import Mutable
from ..named_method import NamedMethod
from ..objects.mro import lookup
from ..operation import Operation, UnaryOperation
from ..registry import accepts, method_of


class BoundBuiltin(NamedMethod):
    """A builtin type's method bound to a value."""

    __slots__ = ()
    cls: Any = type([].append)

    def key(self, tx: TraceContext) -> Any:
        return (IdentityKey(self.receiver), self.name)

    def reconstruct(self, emit: Emitter) -> None:
        outer = self.receiver.outer if isinstance(self.receiver, BuiltinContainer) else None
        if outer is None:
            super().reconstruct(emit)
        else:  # the container's own method, past one of that name in the object's class
            method = getattr(self.receiver.python_type(), self.name)
            emit.call(method.__get__, [outer, emit.const(outer.python_type())])

    def compare(self, tx: TraceContext, op: Operation, other: Value) -> Value | None:
        if not op.is_equality or not isinstance(other, BoundBuiltin):
            return None
        same = self.name == other.name and tx.objects.is_same(self.receiver, other.receiver)
        return Constant(op.answer(same))


class BuiltinContainer(Mutable):
    """The common part of lists, tuples, dictionaries and sets: their methods are registered
    handlers. `outer` is the object of a class written in Python that contains this container, or
    None."""

    __slots__ = ("outer",)

    def __init__(self, source: Source | None = None) -> None:
        super().__init__(source)
        self.outer: Value | None = None

    def key(self, tx: TraceContext) -> Any:
        if self.python_type().__hash__ is None:
            raise tx.exceptions.new(TypeError, f"unhashable type: '{self.python_type().__name__}'")
        return super().key(tx)

    def attribute(self, tx: TraceContext, name: str) -> Value:
        if name == "__class__":
            return tx.wrap(self.python_type(), None)
        if method_of(self.python_type(), name) is not None:
            return BoundBuiltin(self, name)
        if not hasattr(self.python_type(), name):
            raise tx.exceptions.no_attribute(self.python_type().__name__, name)
        if isinstance(
            getattr(self.python_type(), name), types.FunctionType
        ):  # collections.Counter has methods written in Python
            return tx.calls.class_method(self, self.python_type(), name)
        raise self.unsupported_use(f"attribute {name}")

    def method(self, tx: TraceContext, name: str, args: Args, kwargs: Kwargs) -> Value:
        handler = method_of(self.python_type(), name)
        if handler is None:
            return self.attribute(tx, name).call(tx, args, kwargs)
        if not accepts(handler, len(args) + 2, kwargs):
            raise self.unsupported_use(f"method {name} with these arguments")
        return handler(tx, self, *args, **kwargs)

    def truth(self, tx: TraceContext) -> bool:
        return self.length(tx).truth(tx)

    def new_arguments(self, emit: Emitter) -> list[Callable[[], None]]:
        """The arguments of __new__, besides the class, for the object that contains this
        container."""
        return []

    def emit_fill(self, emit: Emitter, obj: Value) -> None:
        """Emits code that puts the items into a new object of a subclass."""

    def apply_unary(self, tx: TraceContext, op: UnaryOperation) -> Value | None:
        raw = lookup(self.python_type(), op.name)[1]
        return self.method(tx, op.name, [], {}) if isinstance(raw, types.FunctionType) else None
