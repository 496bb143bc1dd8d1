"""Mutable values: those whose state the traced program can change, and how a change is undone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...guards.source import Source
from .base import Value

if TYPE_CHECKING:
    from .emitter import Emitter


class Mutable(Value):
    """State that can be saved and put back. `epoch` is that of its last saved change (see
    effects.py), 0 for none."""

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
        """Whether there is a real object, to which changes have to be applied: it existed before
        the frame, or is the frame's own."""
        return self.source is not None

    def emit_changes(self, emit: Emitter) -> None:
        """Emits code that applies the changes to the real object. Nothing for those whose parts
        apply them."""
