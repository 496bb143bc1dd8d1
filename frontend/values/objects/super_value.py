"""super() of two arguments."""

from __future__ import annotations

import types

from ....errors import GraphBreak
from ..base import Value
from ..context import TraceContext
from ..emitter import Emitter
from .class_value import ClassValue, bind, property_function, raw_attribute


class SuperValue(Value):
    """super(cls, receiver)."""

    __slots__ = ("cls", "receiver")

    def __init__(self, cls: type, receiver: Value) -> None:
        super().__init__()
        self.cls, self.receiver = cls, receiver

    def python_type(self) -> type:
        return super

    def attribute(self, tx: TraceContext, name: str) -> Value:
        """The attribute of the first class after `cls` in the receiver's method resolution
        order."""
        of_class = isinstance(self.receiver, ClassValue) and self.cls in (
            self.receiver.cls.__mro__ or ()
        )
        start = self.receiver.constant() if of_class else self.receiver.python_type()
        order = start.__mro__
        if order is None or self.cls not in order:
            raise GraphBreak(
                "exception-leaves",
                "TypeError: super(type, obj): obj must be an instance or subtype of type",
            )
        if name == "__class__":
            return tx.wrap(super, None)
        for owner in order[order.index(self.cls) + 1 :]:
            if name in owner.__dict__:
                return self._bind_found(tx, owner, name, start, of_class)
        raise tx.exceptions.no_attribute("super", name)

    def _bind_found(
        self, tx: TraceContext, owner: type, name: str, start: type, of_class: bool
    ) -> Value:
        """Binds an attribute found in `owner`. `of_class`: the receiver is a class, so functions
        stay functions."""
        raw, source = raw_attribute(tx, owner, name, None)
        if isinstance(raw, property) and type(raw).__get__ is property.__get__ and not of_class:
            return property_function(tx, raw, source, "fget").call(tx, [self.receiver], {})
        if name == "__new__":
            return tx.wrap(raw.__func__ if isinstance(raw, staticmethod) else raw, None)
        if of_class and isinstance(
            raw,
            types.FunctionType
            | property
            | types.WrapperDescriptorType
            | types.MethodDescriptorType,
        ):
            return tx.wrap(raw, source)
        return bind(tx, raw, self.receiver, tx.wrap(start, None), source)

    def reconstruct(self, emit: Emitter) -> None:
        emit.call(super, [emit.const(self.cls), self.receiver])
