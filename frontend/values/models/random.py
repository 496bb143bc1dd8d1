"""torch's generators: the default one of the CPU (see RandomState), and those of the program."""

from __future__ import annotations

import torch

from ....backends.graph.random_generators import (
    random_state,
    restore_random_state,
    seed_random_generator,
    seed_random_generators,
)
from ....errors import GraphBreak
from ....guards.source import EnteredRandomState
from ..base import Value
from ..constant import Constant
from ..context import TraceContext
from ..functions.builtin_function import BuiltinValue
from ..modes.context_manager import NullManager
from ..random_state import default_generator
from ..registry import models
from ..tensor.symbolic_number import SymbolicNumber
from ..tensor.tensor import TensorValue
from ..tensor.traced_call import NoEffects

STATE = torch.get_rng_state()  # for its size and dtype


@models(torch.get_rng_state)
def get_rng_state(tx: TraceContext) -> Value:
    if tx.random.was_used(tx):
        return get_state(tx, default_generator(tx))
    tx.random.keep_state(tx)
    return tx.wrap(torch.get_rng_state(), EnteredRandomState())


# by name: importing torch._dynamo puts a wrapper in its place
@models(("torch.random", "manual_seed"))
def manual_seed(tx: TraceContext, seed: Value) -> Value:
    number = checked_seed(tx, seed, "torch.manual_seed()")
    if tx.random.was_used(tx) or isinstance(number, SymbolicNumber):
        tx.graph.function(seed_random_generators, number, generator=default_generator(tx))
    else:
        tx.random.set_seed(tx, number.constant())
    return BuiltinValue(torch.default_generator)


@models(torch.set_rng_state)
def set_rng_state(tx: TraceContext, new: Value) -> Value:
    state = checked_state(tx, new, STATE, "torch.set_rng_state()")
    if state.source is None or state.real is None:
        restore_state(tx, state, default_generator(tx))
    else:
        tx.random.store(tx, state)
    return Constant(None)


def checked_seed(tx: TraceContext, seed: Value, what: str) -> Value:
    """A seed that is known or a number that varies, such as a step's. Breaks at others."""
    seed = tx.look(seed)
    if isinstance(seed, SymbolicNumber) and seed.python_type() is int:
        if not isinstance(tx.effects, NoEffects):
            return seed
    elif not seed.varies() and seed.is_constant() and type(seed.constant()) is int:
        if -(2**63) <= seed.constant() < 2**64 and not isinstance(tx.effects, NoEffects):
            return seed
    raise GraphBreak("unknown-call", f"{what} of {seed.describe()}")


def checked_state(tx: TraceContext, state: Value, like: torch.Tensor, what: str) -> TensorValue:
    """The state of a generator whose states are like `like`. Breaks at other values."""
    state = tx.look(state)
    if (
        isinstance(tx.effects, NoEffects)
        or type(state) is not TensorValue
        or state.fake.shape != like.shape
        or state.fake.dtype != like.dtype
        or state.fake.device != like.device
        or not state.fake.is_contiguous()
    ):
        raise GraphBreak("unknown-call", f"{what} of {state.describe()}")
    return state


def restore_state(tx: TraceContext, state: TensorValue, generator: Value) -> None:
    tx.graph.function(restore_random_state, state, generator=generator)


# generators of the program


@models(torch.Generator.manual_seed)
def seed_generator(tx: TraceContext, generator: Value, seed: Value) -> Value:
    number = checked_seed(tx, seed, "Generator.manual_seed()")
    tx.graph.function(seed_random_generator, number, generator=generator)
    return generator


@models(torch.Generator.get_state)
def get_state(tx: TraceContext, generator: Value) -> Value:
    if isinstance(tx.effects, NoEffects):
        raise GraphBreak("unknown-call", "Generator.get_state()")
    size = Constant(state_of(tx, generator).numel())
    return tx.graph.function(random_state, size, generator=generator)


@models(torch.Generator.set_state)
def set_state(tx: TraceContext, generator: Value, new: Value) -> Value:
    like = state_of(tx, generator)
    restore_state(tx, checked_state(tx, new, like, "Generator.set_state()"), generator)
    return generator


def state_of(tx: TraceContext, generator: Value) -> torch.Tensor:
    """The state of a generator in this call, for its size and dtype. Breaks at one that the program
    has made in the frame."""
    real = tx.objects.real_object(generator)
    if type(real) is not torch.Generator:
        raise GraphBreak("unknown-call", f"a method of {generator.describe()}")
    return real.get_state()


@models(torch.seed, torch.initial_seed)
def seed(tx: TraceContext) -> Value:
    raise GraphBreak("unknown-call", "torch.seed() or torch.initial_seed()")


@models(torch._C._DisableTorchDispatch, torch._C._DisableFuncTorch)
def no_modes(tx: TraceContext) -> Value:
    """Does nothing: without a mode or a subclass there is nothing to disable."""
    if torch._C._functorch.maybe_current_level() is not None:
        raise GraphBreak("unknown-call", "a function that disables torch.func inside a transform")
    return NullManager(Constant(None))
