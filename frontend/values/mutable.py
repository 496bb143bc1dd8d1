"""Mutable values: their state can be changed by the traced program, and a break restores it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...guards.source import Source
from .base import Value
from .context import TraceContext
from .emitter import Emitter

COPIED = (list, dict, set)


class Mutable(Value):
    """State that can be saved and restored: the attributes that `state` names. `epoch` is that of
    its last saved change (see tracing/effect_log.py), 0 for none."""

    __slots__ = ("epoch",)
    state: tuple[str, ...] = ()

    def __init__(self, source: Source | None = None) -> None:
        super().__init__(source)
        self.epoch = 0

    def snapshot(self) -> Any:
        """A copy of the state, as restore() takes it."""
        parts = (getattr(self, name) for name in self.state)
        return tuple(part.copy() if type(part) in COPIED else part for part in parts)

    def restore(self, state: Any) -> None:
        for name, part in zip(self.state, state, strict=True):
            setattr(self, name, part)

    def is_real(self) -> bool:
        """Whether a real object exists to which changes are applied: one from before the frame, or
        the frame's own."""
        return self.source is not None

    def lost_objects(self, tx: TraceContext) -> Iterable[Any] | None:
        """The real objects that a changed object held before and may hold no more; a new object()
        for one that is not known. None: those that the real object holds and the value does not."""
        return None

    def stored_items(self) -> list[tuple[Source, Value]]:
        """What the program stored, with the path by which a later call finds it."""
        return []

    def emit_changes(self, emit: Emitter) -> None:
        """Emits code that applies the changes to the real object. Does nothing by default, for
        values whose parts apply their changes."""
