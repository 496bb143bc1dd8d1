"""The state of torch's CPU generator: the traced program may seed it, keep its state, or restore
one. Its state is read before the graph draws from it and stored after the graph; between the two it
breaks."""

from __future__ import annotations

import torch

from ...backends.graph.random_draws import may_draw
from ...errors import GraphBreak
from .base import Value
from .context import TraceContext
from .emitter import Emitter
from .mutable import Mutable
from .tensor.traced_call import NoEffects


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

    def keep_state(self, tx: TraceContext) -> None:
        """The program takes the state that the frame began with."""
        self._start_change(tx, "torch.get_rng_state()")
        if self.kept:  # each call makes a tensor, and guards one for all
            raise GraphBreak("unknown-call", "a second torch.get_rng_state()")
        self.kept = True

    def set_seed(self, tx: TraceContext, seed: int) -> None:
        self._start_change(tx, "torch.manual_seed()")
        self.seed = seed

    def _start_change(self, tx: TraceContext, what: str) -> None:
        """Breaks where the program has used the generator before."""
        used = (
            self.seed is not None or self.stored is not None or any(map(may_draw, tx.graph.nodes))
        )
        if used or isinstance(tx.effects, NoEffects):
            raise GraphBreak("unknown-call", f"{what} after an operation that uses the generator")
        tx.effects.change(self)

    def store(self, tx: TraceContext, state: Value) -> None:
        """The generator has this state after the graph."""
        tx.effects.change(self)
        self.stored, self.position = state, tx.frames.break_position()

    def emit_state(self, emit: Emitter, *, seeded_by_graph: bool) -> None:
        """Emits code that seeds the generator, unless the graph does, and then gives it the state
        that the program stored."""
        if self.seed is not None and not seeded_by_graph:
            emit.run(torch.manual_seed, [emit.const(self.seed)])
        if self.stored is not None:
            emit.run(torch.set_rng_state, [self.stored])
