"""The attribute `framejit` of a compiled module, of a copy of one, and of objects that are not
compiled."""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from ..events import Skipped
from .explain import make_report

if TYPE_CHECKING:
    from .explain.report import Report

COPIED = "a copy of a compiled module is not compiled itself; call framejit.compile on the copy"


def answer_for(target: Any, reason: str) -> Any:
    """Gives an object that runs in eager the attributes `framejit` and `explain` of a compiled
    function. Returns the object, or a Python function that calls it if it takes no attributes."""
    control = ControlGroup(None, title_of(target), reason)
    if isinstance(target, torch.nn.Module):
        vars(target)["framejit"] = control
        return target
    # a bound method shows its function's attributes
    holder = getattr(target, "__func__", target)
    try:
        holder.framejit, holder.explain, holder.wait = control, control.explain, control.wait
    except (AttributeError, TypeError):
        return answer_for(call_of(target), reason)
    return target


def call_of(target: Any) -> types.FunctionType:
    """A Python function that calls something callable: a builtin, a partial, an object with
    __call__."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return target(*args, **kwargs)

    name = title_of(target)
    code = call.__code__.replace(co_name=name.rpartition(".")[2], co_qualname=name)
    made = types.FunctionType(
        code, call.__globals__, name.rpartition(".")[2], None, call.__closure__
    )
    made.__qualname__ = name
    assigned = ("__module__", "__doc__")
    functools.update_wrapper(made, target, [part for part in assigned if hasattr(target, part)], ())
    return made


def title_of(target: Any) -> str:
    """The name of something callable, for people."""
    while isinstance(target, functools.partial):
        target = target.func
    return str(getattr(target, "__qualname__", None) or type(target).__qualname__)


class ControlGroup:
    """The attribute `framejit` of what has several handles, or none: a compiled module has one for
    its forward, and one for the whole call once that was needed. A copy of it, and what runs in
    eager, has none; `reason` says why."""

    def __init__(
        self, controls: list[Any] | None = None, title: str = "module", reason: str = COPIED
    ) -> None:
        self._controls = [] if controls is None else controls
        self._title, self._reason = title, reason

    def __repr__(self) -> str:
        state = "is compiled" if self._controls else f"runs in eager: {self._reason}"
        return f"<{self._title} {state}>"

    @property
    def is_compiled(self) -> bool:
        """Whether it is compiled (copies are not)."""
        return bool(self._controls)

    def wait(self) -> None:
        """Returns when no background compile is running."""
        for control in self._controls:
            control.wait()

    def reset(self) -> None:
        """Drops all entries and records."""
        for control in self._controls:
            control.reset()

    def explain(self) -> Report:
        """A report of what was captured so far; see framejit.explain."""
        if not self._controls:
            return make_report((Skipped(self._title, "", self._reason),), str, title=self._title)
        report: Report = max(self._controls, key=lambda control: control.compiles).explain()
        return report

    @property
    def compiles(self) -> int:
        """How often something was compiled for it."""
        return sum(control.compiles for control in self._controls)

    @contextlib.contextmanager
    def measure(self) -> Iterator[None]:
        """Calls made inside are measured, for `explain()`, as those of a compiled function are."""
        with contextlib.ExitStack() as stack:
            for control in self._controls:
                stack.enter_context(control.measure())
            yield

    def generated_code(self) -> list[Any]:
        """Guards and code of each live entry as Python text."""
        return [listing for control in self._controls for listing in control.generated_code()]

    def __reduce__(self) -> Any:
        return ControlGroup, (None, self._title, self._reason)
