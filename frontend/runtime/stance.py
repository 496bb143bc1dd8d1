"""set_stance and debug: what calls of compiled functions do from now on, decided in C at each call."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ._hook import set_stance as set_native


class set_stance:  # a function to its users, as torch's is
    """Says what calls of compiled functions do: for the process by calling this; for one thread and
    one block, or for the calls of one function, by using it as a context manager or decorator.

    stance: "default" - compile, and use what was compiled; "force_eager" - nothing compiled is used
    or made; "eager_on_recompile" -
        what was compiled is used where it serves, other calls run in eager; "fail_on_recompile" -
        such calls raise RecompileError.

    Raises ValueError for another name. Calls that are running go on as they began up to their next
    graph break.
    """

    def __init__(self, stance: str) -> None:
        self.stance = stance
        self._before = set_native(
            stance, False
        )  # of the process, until this turns out to be a block's
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
    """Lets debuggers, coverage, tracers and profilers see each of the user's lines: nothing
    compiled is used or made.

    `framejit.debug()` does so for the process until set_stance("default"); `with framejit.debug():`
    for a block and one thread; `@framejit.debug()` for the calls of one function.
    """

    def __init__(self) -> None:
        super().__init__("force_eager")
