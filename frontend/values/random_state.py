"""The state of torch's CPU generator: the traced program may seed it, keep its state, or restore
one. Its state is read before the graph draws from it and stored after the graph; what happens
between draws is a node of the graph."""

from __future__ import annotations

import torch

from ...backends.graph.random_draws import may_draw
from ...backends.graph.random_generators import restore_random_state
from ...errors import GraphBreak
from ...guards.source import AttrSource, ModuleSource
from .base import Value
from .context import TraceContext
from .emitter import Emitter
from .mutable import Mutable
from .tensor.traced_call import NoEffects

DEFAULT_GENERATOR = AttrSource(ModuleSource("torch.random"), "default_generator")


class RandomState(Mutable):
    """`seed`: the program seeded it before the graph draws from it. `kept`: the program holds the
    state that the frame began with. `stored`: the state that it is given after the graph."""

    __slots__ = ("seed", "kept", "stored")
    state = ("seed", "kept", "stored")
    cls = torch.Generator

    def __init__(self) -> None:
        super().__init__()
        self.seed: int | None = None
        self.kept = False
        self.stored: Value | None = None

    def keep_state(self, tx: TraceContext) -> None:
        """The program takes the state that the frame began with."""
        self._start_change(tx, "torch.get_rng_state()")
        self.kept = True

    def set_seed(self, tx: TraceContext, seed: int) -> None:
        self._start_change(tx, "torch.manual_seed()")
        self.seed = seed

    def was_used(self, tx: TraceContext) -> bool:
        """Whether the program has used the generator before, so that this use becomes a node of the
        graph. (Each torch.get_rng_state() makes a tensor; there is one for the state at the start
        of the frame.)"""
        self.store_in_graph(tx)
        used = self.seed is not None or self.kept
        return used or any(map(may_draw, tx.graph.nodes))

    def store_in_graph(self, tx: TraceContext) -> None:
        """Gives the generator the stored state inside the graph, before what comes next."""
        if self.stored is None:
            return
        state = self.stored
        tx.effects.change(self)
        self.stored = None
        tx.graph.function(restore_random_state, state, generator=default_generator(tx))

    def _start_change(self, tx: TraceContext, what: str) -> None:
        if isinstance(tx.effects, NoEffects):
            raise GraphBreak("unknown-call", f"{what} in a call that becomes one node")
        tx.effects.change(self)

    def store(self, tx: TraceContext, state: Value) -> None:
        """The generator has this state after the graph."""
        tx.effects.change(self)
        self.stored = state

    def emit_state(self, emit: Emitter, *, seeded_by_graph: bool) -> None:
        """Emits code that seeds the generator, unless the graph does, and then gives it the state
        that the program stored."""
        if self.seed is not None and not seeded_by_graph:
            emit.run(torch.manual_seed, [emit.const(self.seed)])
        if self.stored is not None:
            emit.run(torch.set_rng_state, [self.stored])


def default_generator(tx: TraceContext) -> Value:
    """torch's generator for the CPU, as an input of the graph."""
    return tx.wrap(torch.default_generator, DEFAULT_GENERATOR)
