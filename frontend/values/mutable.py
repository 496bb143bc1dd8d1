"""Mutable values: their state can be changed by the traced program, and a break restores it."""

from __future__ import annotations

from typing import Any

from ...guards.source import Source
from .base import Value
from .emitter import Emitter


class Mutable(Value):
    """State that can be saved and restored. `epoch` is that of its last saved change (see
    tracing/effect_log.py), 0 for none."""

    __slots__ = ("epoch",)

    def __init__(self, source: Source | None = None) -> None:
        super().__init__(source)
        self.epoch = 0

    def snapshot(self) -> Any:
        """A copy of the state, as restore() takes it."""
        raise NotImplementedError

    def restore(self, state: Any) -> None:
        raise NotImplementedError

    def is_real(self) -> bool:
        """Whether a real object exists to which changes are applied: one from before the frame, or
        the frame's own."""
        return self.source is not None

    def emit_changes(self, emit: Emitter) -> None:
        """Emits code that applies the changes to the real object. Does nothing by default, for
        values whose parts apply their changes."""
