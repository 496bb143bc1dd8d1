"""set_stance and debug: what calls of compiled functions do from now on, decided in C at each
call."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ._hook import set_stance as set_native


class set_stance:  # a function to its users, as torch's is
    """Sets what calls of compiled functions do.

    Called, it holds for the process; as a context manager, for one thread and one block; as a
    decorator, for the calls of one function. Calls that are running change at their next graph
    break.

    Args:
        stance: "default": compile, and use compiled code. "force_eager": neither use nor make
            compiled code. "eager_on_recompile": use compiled code where it serves; other calls run
            in eager. "fail_on_recompile": use compiled code where it serves; other calls raise
            RecompileError.

    Raises:
        ValueError: unknown stance.
    """

    def __init__(self, stance: str) -> None:
        self.stance = stance
        # of the process, until this turns out to be a block's
        self._before = set_native(stance, False)
        self._saved: list[str | None] = []

    def __enter__(self) -> None:
        self._undo()
        self._saved.append(set_native(self.stance, True))

    def __exit__(self, *exc: object) -> None:
        set_native(self._saved.pop(), True)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        self._undo()

        @functools.wraps(function)
        def run_under_stance(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return run_under_stance

    def _undo(self) -> None:
        """Takes back what the constructor did to the process."""
        if self._before is not None:
            set_native(self._before, False)
            self._before = None


class debug(set_stance):  # a function to its users
    """Runs everything in eager, so that debuggers, coverage, tracers and profilers see each line.

    `framejit.debug()` holds for the process until `set_stance("default")`; `with framejit.debug():`
    for one thread and one block; `@framejit.debug()` for the calls of one function.
    """

    def __init__(self) -> None:
        super().__init__("force_eager")
