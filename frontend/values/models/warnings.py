"""warnings.warn: recorded, and called after the graph."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

from ....errors import GraphBreak
from ....guards.guard import Kind
from ....guards.source import ModuleSource
from ..base import Value
from ..constant import Constant
from ..context import TraceContext
from ..objects.class_value import ClassValue
from ..objects.frozen_object import FrozenObject
from ..program_output import raises, warn_from, warning_receiver
from ..registry import models


@models(warnings.warn)
def warn(
    tx: TraceContext,
    message: Value,
    category: Value | None = None,
    stacklevel: Value | None = None,
    source: Value | None = None,
) -> Value:
    """Records the warning; it is given when the graph has run. What becomes of it (filters, a list
    that records warnings, stderr) is guarded. Breaks at other forms of the call."""
    if category is None or category.is_none():
        category = tx.wrap(UserWarning, None)
    level = 1 if stacklevel is None else stacklevel.constant()
    plain = (
        isinstance(category, ClassValue)
        and issubclass(category.cls, Warning)
        and message.python_type() is str
    )
    if not plain or not message.is_constant() or level > 1 or source is not None:
        raise GraphBreak("output", "warnings.warn() with these arguments")
    line, code = tx.frames.line()
    namespace = tx.frames.innermost_globals()
    warning = (
        message.constant(),
        category.constant(),
        namespace.get("__name__") or "<string>",
        line,
    )
    receiver = warning_receiver()
    if receiver == "others" or raises(*warning):
        raise GraphBreak("output", "warnings.warn()")
    tx.guards.add(
        ModuleSource("warnings"),
        Kind.PYTHON,
        (f"shows {warning} by {receiver}", partial(shows_as_now, warning, receiver)),
    )
    where = (Constant(code.co_filename), Constant(line), FrozenObject(namespace))
    tx.effects.output(
        warn_from, (message, category, *where), tx.frames.break_position(), receiver == "list"
    )
    return Constant(None)


def shows_as_now(warning: tuple[Any, ...], receiver: str, module: Any) -> bool:
    return warning_receiver() == receiver and not raises(*warning)
