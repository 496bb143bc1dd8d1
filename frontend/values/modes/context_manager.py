"""Context managers whose __enter__ and __exit__ are defined here instead of interpreted."""

from __future__ import annotations

import contextlib
import types

from ..base import Args, Kwargs, Value
from ..constant import Constant
from ..context import TraceContext
from ..emitter import Emitter
from ..mutable import Mutable


class ContextManager(Mutable):
    """A manager that `enter` and `exit` enter and leave in the trace."""

    __slots__ = ()
    methods: tuple[str, ...] = ("__enter__", "__exit__")

    def enter(self, tx: TraceContext) -> Value:
        return Constant(None)

    def exit(self, tx: TraceContext) -> Value:
        return Constant(None)

    def attribute(self, tx: TraceContext, name: str) -> Value:
        if name in self.methods:
            return ManagerMethod(self, name)
        raise self.unsupported_use(f"attribute {name}")


class ManagerMethod(Value):
    """One of a manager's methods, bound to it."""

    __slots__ = ("manager", "name")
    cls = types.MethodType

    def __init__(self, manager: ContextManager, name: str) -> None:
        super().__init__()
        self.manager, self.name = manager, name

    def attribute(self, tx: TraceContext, name: str) -> Value:
        found = getattr(self.manager.cls, self.name)
        if not hasattr(found, name):
            raise tx.exceptions.no_attribute("function", name)
        return tx.wrap(getattr(found, name), None)

    def call(self, tx: TraceContext, args: Args, kwargs: Kwargs) -> Value:
        found: Value = getattr(self.manager, self.name.strip("_"))(tx)
        return found

    def reconstruct(self, emit: Emitter) -> None:
        emit.push(self.manager)
        emit.builder.load_attr(self.name)


class NullManager(ContextManager):
    """contextlib.nullcontext(result)."""

    __slots__ = ("result",)
    cls = contextlib.nullcontext

    def __init__(self, result: Value) -> None:
        super().__init__()
        self.result = result

    def enter(self, tx: TraceContext) -> Value:
        return self.result

    def attribute(self, tx: TraceContext, name: str) -> Value:
        return self.result if name == "enter_result" else super().attribute(tx, name)

    def reconstruct(self, emit: Emitter) -> None:
        emit.call(contextlib.nullcontext, [self.result])


class OneFrameManager(ContextManager):
    """A manager that does not survive a break. One inside it is made before `created_at` instead,
    where the manager was made."""

    __slots__ = ("created_at",)

    def __init__(self, created_at: int) -> None:
        super().__init__()
        self.created_at = created_at
