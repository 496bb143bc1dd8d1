"""torch's CPU generator (see RandomState)."""

from __future__ import annotations

import torch

from ....errors import GraphBreak
from ....guards.source import EnteredRandomState
from ..base import Value
from ..constant import Constant
from ..context import TraceContext
from ..functions.builtin_function import BuiltinValue
from ..modes.mode_manager import NullManager
from ..registry import models
from ..tensor.tensor import TensorValue
from ..tensor.traced_call import NoEffects

STATE = torch.get_rng_state()  # for its size and dtype


@models(torch.get_rng_state)
def get_rng_state(tx: TraceContext) -> Value:
    tx.random.keep_state(tx)
    return tx.wrap(torch.get_rng_state(), EnteredRandomState())


# by name: importing torch._dynamo puts a wrapper in its place
@models(("torch.random", "manual_seed"))
def manual_seed(tx: TraceContext, seed: Value) -> Value:
    # a seed that varies, such as a step's number, is not worth a compile each
    if seed.varies() or not (
        seed.is_constant() and type(seed.constant()) is int and -(2**63) <= seed.constant() < 2**64
    ):
        raise GraphBreak("unknown-call", f"torch.manual_seed() of {seed.describe()}")
    tx.random.set_seed(tx, seed.constant())
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
    tx.random.store(tx, new)
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
