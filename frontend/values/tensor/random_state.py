"""What the traced program does to torch's CPU generator besides drawing from it: seeds it, keeps
its state, puts one back."""

from __future__ import annotations

from typing import Any

import torch

from ..base import Value
from ..mutable import Mutable


class RandomState(Mutable):
    """`seed`: it was seeded before the graph draws from it. `kept`: somebody has the state that it
    had when the frame was entered. `stored`: the state that it is given behind the graph, and the
    place of that (tracing/outcome.py)."""

    __slots__ = ("seed", "kept", "stored", "place")

    def __init__(self) -> None:
        super().__init__()
        self.seed: int | None = None
        self.kept = False
        self.stored: Value | None = None
        self.place = -1

    def python_type(self) -> type:
        return torch.Generator

    def snapshot(self) -> Any:
        return self.seed, self.kept, self.stored, self.place

    def restore(self, state: Any) -> None:
        self.seed, self.kept, self.stored, self.place = state
