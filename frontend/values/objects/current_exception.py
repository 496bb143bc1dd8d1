"""The items that CPython keeps on the stack for open exception handlers."""

from __future__ import annotations

import types

from ..base import Value
from ..constant import Constant


class HandledException(Value):
    """Pushed by PUSH_EXC_INFO: `previous` was handled before (None: nothing), `current` is handled
    now."""

    __slots__ = ("previous", "current")

    def __init__(self, previous: Value | None, current: Value) -> None:
        super().__init__()
        self.previous, self.current = previous, current

    def describe(self) -> str:
        return "an open exception handler"


class Traceback(Value):
    """The traceback of an exception that no Python frame has raised. Any use of it breaks."""

    __slots__ = ("created_at",)
    cls = types.TracebackType

    def __init__(self, created_at: int) -> None:
        super().__init__()
        self.created_at = created_at


class LastInstruction(Constant):
    """The index of a raising instruction, as an existing frame pushed it."""

    __slots__ = ()
