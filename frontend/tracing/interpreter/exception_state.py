"""ExceptionState: the exceptions of the traced program: the handled one, new ones, and where each
was raised."""

from __future__ import annotations

import sys
from typing import Any

from ....guards.source import HandledOutside
from ...values.base import ObservedException, Value
from ...values.context import TraceContext
from ...values.objects.exception import ExceptionValue


class ExceptionState:
    """The exceptions of one capture, seen by values as `tx.exceptions`."""

    def __init__(self, tx: TraceContext) -> None:
        self._tx = tx
        self.handled: Value | None = None  # the exception that is being handled
        self._outside = sys.exc_info()[1]  # the one being handled around the frame
        # break positions of exceptions that were raised and caught
        self.raised_at: dict[Value, int] = {}

    def handled_outside(self) -> Value:
        """The exception that is being handled around the frame, or None; guarded."""
        return self._tx.wrap(self._outside, HandledOutside())

    def new(self, cls: type[BaseException], *args: Any) -> ObservedException:
        """The exception to raise when the traced program raises `cls(*args)`."""
        return self.new_of_values(cls, [self._tx.wrap(arg, None) for arg in args])

    def new_of_values(self, cls: type[BaseException], args: list[Value]) -> ObservedException:
        """Creates an exception as `new` does, of arguments that are values."""
        error = ExceptionValue(cls, args)
        error.happens_during(self._tx, self.handled)
        return ObservedException(error)

    def no_attribute(self, type_name: str, name: str) -> ObservedException:
        """The AttributeError of an object of this type that lacks a name."""
        return self.new(AttributeError, f"'{type_name}' object has no attribute '{name}'")

    def instance(self, value: Value) -> Value:
        """The exception that `raise value` raises: an instance, made where `value` is a class."""
        if (
            value.is_constant()
            and isinstance(value.constant(), type)
            and issubclass(value.constant(), BaseException)
        ):
            return value.call(self._tx, [], {})
        if issubclass(value.python_type(), BaseException):
            return value
        raise self.new(TypeError, "exceptions must derive from BaseException")

    def release_objects(self) -> None:
        self._outside = None
        self.raised_at.clear()
