"""EntryParts: what an entry is made of, before it is bound to a function."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from ...guards.program import GuardProgram
from ...records import record
from ._hook import Entry

Direct = tuple[Callable[..., Any], tuple[int, ...], tuple[type[BaseException], ...]]


@record
class EntryParts:
    """The guards, the code (None: the original, as it is) and whether the hook stays on in it.
    direct: a graph that is called without the code, where its arguments are, and the errors that it
    passes on. process_bound: what else holds in this process only, "" for nothing. once: whether it
    serves one call only."""

    program: GuardProgram
    code: types.CodeType | None
    needs_hook: bool
    direct: Direct | None = None
    process_bound: str = ""
    once: bool = False

    def make(self, function: types.FunctionType, is_continuation: bool) -> Entry:
        """The entry for frames of a function, or for the code after a break in them."""
        made: types.FunctionType | None = None
        if self.code is not None and (is_continuation or function.__closure__ is None):
            made = types.FunctionType(
                self.code, function.__globals__, function.__name__, None, function.__closure__
            )
        return Entry(
            self.program.native(),
            made,
            self.code,
            self.needs_hook,
            data=self.program,
            direct=self.direct,
            once=self.once,
        )
