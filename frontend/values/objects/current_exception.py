"""The items that CPython keeps on the stack for open exception handlers."""

from __future__ import annotations

import types
from typing import Any

from ....guards.source import Source
from ..base import Value
from ..context import TraceContext
from ..emitter import Emitter


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

    def __init__(self, created_at: int) -> None:
        super().__init__()
        self.created_at = created_at

    def python_type(self) -> type:
        return types.TracebackType

    def truth(self, tx: TraceContext) -> bool:
        return True


class LastInstruction(Value):
    """The index of a raising instruction, as an existing frame pushed it."""

    __slots__ = ("object",)
    is_code_constant = True

    def __init__(self, obj: int, source: Source | None) -> None:
        super().__init__(source)
        self.object = obj

    def is_constant(self) -> bool:
        return True

    def constant(self) -> Any:
        return self.object

    def python_type(self) -> type:
        return int

    def reconstruct(self, emit: Emitter) -> None:
        emit.push_literal(self.object)
