"""A compiled handle met inside a capture: its function, inlined. Importing this registers how it is
read."""

from __future__ import annotations

from ...guards.guard import Kind
from ...guards.source import AttrSource, Source
from ..values.base import Value
from ..values.context import TraceContext
from ..values.functions.builtin_function import BuiltinValue
from ..values.functions.method import MethodValue
from ..values.registry import wraps
from ._hook import Handle


class HandleValue(BuiltinValue):
    """A handle; `function` is what it compiles."""

    __slots__ = ("function",)

    def __init__(self, real: Handle, function: Value, source: Source | None) -> None:
        super().__init__(real, source)
        self.function = function

    def describe(self) -> str:
        return f"compiled {self.function.describe()}"

    def attribute(self, tx: TraceContext, name: str) -> Value:
        if name in ("function", "__wrapped__"):
            return self.function
        return self.function.attribute(tx, name)

    def call(self, tx: TraceContext, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return self.function.call(tx, args, kwargs)

    def method(
        self, tx: TraceContext, name: str, args: list[Value], kwargs: dict[str, Value]
    ) -> Value:
        if name == "__get__":  # (instance, owner): bound as a function is
            receiver = args[0]
            return self if receiver.is_none() else MethodValue(receiver, self)
        return super().method(tx, name, args, kwargs)


@wraps(Handle)
def wrap_handle(tx: TraceContext, obj: Handle, source: Source | None) -> Value:
    tx.guards.add(source, Kind.IS, obj)
    return HandleValue(
        obj, tx.wrap(obj.function, source and AttrSource(source, "function")), source
    )
