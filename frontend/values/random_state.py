"""The state of torch's CPU generator: the traced program may seed it, keep its state, or restore
one."""

from __future__ import annotations

import torch

from .base import Value
from .emitter import Emitter
from .mutable import Mutable


class RandomState(Mutable):
    """`seed`: the program seeded it before the graph draws from it. `kept`: the program holds the
    state that the frame began with. `stored`: the state that it is given after the graph;
    `position` the position of that (tracing/interpreter/outcome.py)."""

    __slots__ = ("seed", "kept", "stored", "position")
    state = ("seed", "kept", "stored", "position")
    cls = torch.Generator

    def __init__(self) -> None:
        super().__init__()
        self.seed: int | None = None
        self.kept = False
        self.stored: Value | None = None
        self.position = -1

    def emit_state(self, emit: Emitter, *, seeded_by_graph: bool) -> None:
        """Emits code that seeds the generator, unless the graph does, and then gives it the state
        that the program stored."""
        if self.seed is not None and not seeded_by_graph:
            emit.run(torch.manual_seed, [emit.const(self.seed)])
        if self.stored is not None:
            emit.run(torch.set_rng_state, [self.stored])
