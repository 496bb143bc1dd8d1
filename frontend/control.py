"""Control: the attribute `framejit` of a compiled function, `handle.framejit`: what can be asked of
it. (That of a compiled module is a ControlGroup, framejit_attribute.py.)"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..events import Recorder
from ..guards.guard import Guard
from ..guards.kinds.registry import kind_of
from .explain import make_report
from .runtime.cache import Cache
from .runtime.entry_listing import Listing, listings
from .runtime.probe import Probe

if TYPE_CHECKING:
    from .explain.report import Report

HISTORY = 2048  # records that a handle keeps of what happened to it


class Control:
    """What can be asked of a compiled function: `handle.framejit`."""

    is_compiled = True

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self.history = Recorder(HISTORY)
        self.probe: Probe | None = cache.probe
        cache.sinks.append(self.history)

    def explain(self) -> Report:
        """What was captured so far, where it broke and why; nothing is run or compiled again for
        it. Times of graphs and breaks are those of calls made under `measure()`."""
        return make_report(
            tuple(self.history.events),
            condition,
            probe=self.probe,
            title=self.cache.handle.function.__qualname__,
            account=self.cache.balance(),
        )

    @contextlib.contextmanager
    def measure(self) -> Iterator[None]:
        """Calls made inside are measured, for `explain()`: they run separate code, which is
        compiled for this and takes times. The code compiled before is kept, and serves the calls
        afterwards."""
        self.probe = self.probe or Probe()
        with self.cache.measure(self.probe):
            yield

    def generated_code(self) -> list[Listing]:
        """Guards and code of each live entry as Python text, which linecache (so tracebacks and
        debuggers too) finds by its name."""
        return list(listings(self.cache))

    def wait(self) -> None:
        """Returns when nothing compiles in the background."""
        self.cache.wait()

    def reset(self) -> None:
        """Forgets every entry, and what happened so far."""
        self.cache.clear()
        self.history.events.clear()
        self.probe = self.cache.probe

    @property
    def compiles(self) -> int:
        """How often something was compiled for this handle."""
        return self.cache.compiles


def guard_text(guard: Guard) -> str:
    """A guard as a person would write it, and the line that asked for it."""
    line = f"  # {guard.line}" if guard.line else ""
    return condition(guard) + line


def condition(guard: Guard) -> str:
    """A guard as a person would write it."""
    return kind_of(guard).expression(guard)
