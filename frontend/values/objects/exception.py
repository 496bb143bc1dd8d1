"""Exceptions of the traced program."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from ....errors import GraphBreak
from ....guards.guard import Kind
from ....guards.source import Source
from ..base import CannotReconstruct, Value, require_path
from ..constant import Constant
from ..context import TraceContext
from ..emitter import Emitter
from ..registry import wraps_subclasses
from .current_exception import Traceback
from .mro import HEAP_TYPE, lookup
from .user_object import UserObject


class ExceptionValue(UserObject):
    """An exception made while tracing: its class, its arguments, its cause and context."""

    __slots__ = ("args", "created_at")
    state = (*UserObject.state, "args")
    break_reason = "exception-leaves"

    def __init__(
        self, cls: type, args: list[Value], real: Any = None, source: Source | None = None
    ) -> None:
        super().__init__(cls, real, source)
        self.args = args
        # the break position at which one made here was raised: its traceback is Python's to make
        self.created_at: int | None = None

    def generic_attribute(self, tx: TraceContext, name: str) -> Value:
        """What exceptions store in C (args, value, __cause__, __context__) is known here for those
        that the program made; the traceback of one that was raised is not, so a break is made
        before that."""
        if name == "__traceback__" and self.real is None:
            if self.created_at is None:
                return Constant(None)
            stop = GraphBreak("exception-leaves", f"the traceback of a {self.cls.__name__}")
            stop.position = self.created_at
            raise stop
        if name == "args" and self.real is None:
            return tx.make.tuple_of(self.args)
        if (
            name == "value"
            and issubclass(self.cls, StopIteration)
            and self.real is None
            and name not in self.attrs
        ):
            return self.args[0] if self.args else Constant(None)
        if name == "__context__" and self.created_at is not None and name not in self.attrs:
            return tx.exceptions.handled_outside()
        if name in ("__cause__", "__context__", "__suppress_context__") and self.real is None:
            return self.attrs.get(name) or Constant(
                False if name == "__suppress_context__" else None
            )
        return super().generic_attribute(tx, name)

    def generic_set_attribute(self, tx: TraceContext, name: str, value: Value) -> None:
        """Stores as BaseException does: checks causes and contexts; a cause hides the context."""
        is_none = value.is_none()
        if name == "__traceback__":
            if self.source is None and (is_none or isinstance(value, Traceback)):
                return
            raise GraphBreak("unsupported-mutation", "of a traceback")
        if (
            name in ("__cause__", "__context__")
            and not is_none
            and not issubclass(value.python_type(), BaseException)
        ):
            raise tx.exceptions.new(
                TypeError, f"exception {name[2:-2]} must be None or derive from BaseException"
            )
        if self._laid_out(name):
            raise GraphBreak("unsupported-mutation", f"of attribute '{name}' of {self.describe()}")
        super().generic_set_attribute(tx, name, value)
        if name == "__cause__":
            self.store(tx, "__suppress_context__", Constant(True))

    def _laid_out(self, name: str) -> bool:
        """Whether a builtin exception class stores an attribute in C, where only its own code can
        make and show it."""
        owner, raw = lookup(self.cls, name)
        return owner not in (None, BaseException) and isinstance(
            raw, types.MemberDescriptorType | types.GetSetDescriptorType
        )

    def happens_during(self, tx: TraceContext, handled: Value | None) -> None:
        """Sets the context of an exception that is raised while another one is handled. A chain of
        contexts never leads back to it."""
        if handled is None or handled is self:
            return
        self.store(tx, "__context__", handled)
        link: Any = handled
        while (
            isinstance(link, ExceptionValue)
            and (after := link.attrs.get("__context__")) is not None
        ):
            if after is self:
                link.store(tx, "__context__", Constant(None))
            link = None if after is self else after

    def text(self, tx: TraceContext) -> Value:
        """str(exception), if its class does not redefine it."""
        owner = lookup(self.cls, "__str__")[0]
        # they have it from BaseException
        owner = BaseException if owner in (NameError, AttributeError) else owner
        if owner not in TEXTS:
            raise self.unsupported_use("text")
        args = tx.look(self.attribute(tx, "args"))
        return tx.wrap(TEXTS[owner](args.constant()), None)

    def representation(self, tx: TraceContext) -> Value:
        """repr(exception), if its class does not redefine it."""
        if lookup(self.cls, "__repr__")[0] is not BaseException:
            raise self.unsupported_use("repr()")
        args = tx.look(self.attribute(tx, "args")).literal(tx)
        return Constant(
            f"{self.cls.__name__}({args[0]!r})"
            if len(args) == 1
            else f"{self.cls.__name__}{args!r}"
        )

    def reconstruct(self, emit: Emitter) -> None:
        if self.created_at is not None:
            raise CannotReconstruct(self)
        builtin: Any = builtin_exception(self.cls)
        emit.call(builtin.__new__, [emit.const(self.cls), *self.args])
        emit.keep(self)
        emit.run(builtin.__init__, [self, *self.args])  # some take their arguments apart there
        self._emit_new_attributes(emit)

    def emit_store(self, emit: Emitter, name: str, item: Value) -> None:
        """Stores by setattr: some attributes of exceptions can be stored in no other way."""
        emit.run(setattr, [self, emit.const(name), item])


def builtin_exception(cls: type) -> type:
    """The nearest exception class made in C, whose __new__ and __init__ lay out an instance."""
    return next(base for base in cls.__mro__ if not base.__flags__ & HEAP_TYPE)


TEXTS: dict[type, Callable[[Any], str]] = {
    BaseException: lambda args: "" if not args else str(args[0] if len(args) == 1 else args),
    KeyError: lambda args: repr(args[0]) if len(args) == 1 else TEXTS[BaseException](args),
}


@wraps_subclasses(BaseException)
def wrap_exception(tx: TraceContext, obj: BaseException, source: Source | None) -> Value:
    source = require_path(obj, source)
    tx.guards.add(source, Kind.TYPE, type(obj))
    return tx.objects.remember(obj, ExceptionValue(type(obj), [], obj, source))
