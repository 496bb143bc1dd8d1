"""Exceptions of the traced program, as symbolic objects."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...guards.source import Source
from .base import Value
from .constant import Constant
from .klass import lookup
from .user_object import UserObject

if TYPE_CHECKING:
    from .context import TraceContext


class ExceptionValue(UserObject):
    """An exception made while tracing: its class, its arguments, its cause and context."""

    __slots__ = ("args",)

    def __init__(self, cls: type, args: list[Value], real: Any = None, source: Source | None = None) -> None:
        super().__init__(cls, real, source)
        self.args = args

    def generic_attribute(self, tx: TraceContext, name: str) -> Value:
        if name == "args" and self.real is None:
            return tx.build_tuple(self.args)
        if name == "value" and self.cls is StopIteration and self.real is None:
            return self.args[0] if self.args else Constant(None)
        if name in ("__cause__", "__context__", "__suppress_context__") and self.real is None:
            return self.attrs.get(name) or Constant(False if name == "__suppress_context__" else None)
        return super().generic_attribute(tx, name)

    def generic_set_attribute(self, tx: TraceContext, name: str, value: Value) -> None:
        if name == "__traceback__" and value.is_constant():
            return
        super().generic_set_attribute(tx, name, value)

    def method(self, tx: TraceContext, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "with_traceback":
            return self
        return super().method(tx, name, args, kwargs)

    def text(self, tx: TraceContext) -> Value:
        """str(exception), where its class leaves that to the builtin ones."""
        owner = lookup(self.cls, "__str__")[0]
        owner = BaseException if owner in (NameError, AttributeError) else owner  # they have it from BaseException
        if owner not in TEXTS:
            raise self.unsupported("text")
        args = tx.look(self.attribute(tx, "args"))
        return tx.wrap(TEXTS[owner](args.constant()), None)


TEXTS = {
    BaseException: lambda args: "" if not args else str(args[0] if len(args) == 1 else args),
    KeyError: lambda args: repr(args[0]) if len(args) == 1 else TEXTS[BaseException](args),
}
