"""torch's CPU generator. Its state is read before the graph draws from it and stored after the
graph; between the two it breaks."""

from __future__ import annotations

import torch

from ....backends.graph.random_draws import may_draw
from ....errors import GraphBreak
from ....guards.source import EnteredRandomState
from ..base import Value
from ..constant import Constant
from ..context import TraceContext
from ..functions.builtin_function import BuiltinValue
from ..modes.mode_manager import NullManager
from ..random_state import RandomState
from ..registry import models
from ..tensor.tensor import TensorValue
from ..tensor.traced_call import NoEffects

STATE = torch.get_rng_state()  # for its size and dtype


def fresh_random_state(tx: TraceContext, what: str) -> RandomState:
    """The generator, to be changed, if the program has not changed it so far."""
    state = tx.random
    used = state.seed is not None or state.stored is not None or any(map(may_draw, tx.graph.nodes))
    if used or isinstance(tx.effects, NoEffects):
        raise GraphBreak("unknown-call", f"{what} after an operation that uses the generator")
    tx.effects.change(state)
    return state


@models(torch.get_rng_state)
def get_rng_state(tx: TraceContext) -> Value:
    state = fresh_random_state(tx, "torch.get_rng_state()")
    if state.kept:  # each call makes a tensor, and guards one for all
        raise GraphBreak("unknown-call", "a second torch.get_rng_state()")
    state.kept = True
    return tx.wrap(torch.get_rng_state(), EnteredRandomState())


# by name: importing torch._dynamo puts a wrapper in its place
@models(("torch.random", "manual_seed"))
def manual_seed(tx: TraceContext, seed: Value) -> Value:
    if not (
        seed.is_constant() and type(seed.constant()) is int and -(2**63) <= seed.constant() < 2**64
    ):
        raise GraphBreak("unknown-call", f"torch.manual_seed() of {seed.describe()}")
    fresh_random_state(tx, "torch.manual_seed()").seed = seed.constant()
    return BuiltinValue(torch.default_generator)


@models(torch.set_rng_state)
def set_rng_state(tx: TraceContext, new: Value) -> Value:
    fits = isinstance(new, TensorValue) and new.source is not None and new.real is not None
    if (
        not fits
        or new.fake.shape != STATE.shape  # type: ignore[attr-defined]
        or new.fake.dtype != STATE.dtype  # type: ignore[attr-defined]
        or isinstance(tx.effects, NoEffects)
    ):
        raise GraphBreak("unknown-call", f"torch.set_rng_state() of {new.describe()}")
    tx.effects.change(tx.random)
    tx.random.stored, tx.random.position = new, tx.frames.break_position()
    return Constant(None)


@models(torch.seed, torch.initial_seed)
def seed(tx: TraceContext) -> Value:
    raise GraphBreak("unknown-call", "a query of the random generator")


@models(torch._C._DisableTorchDispatch, torch._C._DisableFuncTorch)
def no_modes(tx: TraceContext) -> Value:
    """Does nothing: without a mode or a subclass there is nothing to disable."""
    if torch._C._functorch.maybe_current_level() is not None:
        raise GraphBreak("unknown-call", "a transform switched off inside of it")
    return NullManager(Constant(None))
