"""Mutable values: those whose state the traced program can change, and how a change is undone."""

from __future__ import annotations

from typing import Any

from ...guards.source import Source
from .base import Value


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
