"""torch.utils.checkpoint: the call becomes one node of the graph, which runs under torch's own
checkpoint."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.fx
from torch.utils import checkpoint

from ....backends.graph.extracted_calls import Checkpointed, extract_subgraph
from ....errors import GraphBreak
from ..base import Value
from ..context import TraceContext
from ..functions.partial import PartialValue
from ..registry import models
from ..tensor.hook_on_tensor import real_function
from ..tensor.tensor import TensorValue
from ..tensor.traced_call import interpret_without_effects, tensors_of

OPTIONS = ("preserve_rng_state", "debug", "early_stop", "determinism_check")
SELECTIVE = checkpoint.create_selective_checkpoint_contexts


def known_contexts(tx: TraceContext, contexts: Value) -> Callable[[], Any]:
    """The `context_fn` of a call, which torch runs with the node: a function that closes over
    nothing of the frame, or torch's selective contexts for a list of operators or such a
    function."""
    function = real_function(tx, contexts)
    if function is not None:
        return function
    if isinstance(contexts, PartialValue) and not contexts.kwargs and len(contexts.args) == 1:
        policy = tx.look(contexts.args[0])
        known = operators_of(tx, policy) or real_function(tx, policy)
        if real_function(tx, tx.look(contexts.function)) is SELECTIVE and known is not None:
            return functools.partial(SELECTIVE, known)
    raise GraphBreak(
        "unknown-call", "torch.utils.checkpoint.checkpoint() with contexts made in the frame"
    )


def operators_of(tx: TraceContext, policy: Value) -> list[Any] | None:
    """The operators in a list; None for anything else."""
    items = policy.unpack(tx) if policy.python_type() is list else []
    operators = [getattr(item, "real", None) for item in items]
    known = all(isinstance(operator, torch._ops.OpOverload) for operator in operators)
    return operators if operators and known else None


def is_reentrant(tx: TraceContext, args: tuple[Value, ...], kwargs: dict[str, Value]) -> bool:
    """Takes `use_reentrant` out of the keywords. Breaks where torch warns, or raises."""
    given = kwargs.pop("use_reentrant", None)
    if given is not None and not given.truth(tx):
        return False
    if (
        given is None
        or not kwargs.keys() <= {"preserve_rng_state"}
        or not any(map(needs_gradient, map(tx.look, args)))
    ):
        raise GraphBreak(
            "unknown-call",
            "torch.utils.checkpoint.checkpoint() with use_reentrant=True and these arguments",
        )
    return True


def require_equal_forms(
    results: list[Value], closed_over: list[Any], given: set[torch.fx.Node]
) -> None:
    """Breaks unless both forms of checkpoint() have one result: the reentrant one makes all results
    require gradients, and runs a backward pass of its own, which ends at leaves."""
    own = all(needs_gradient(result) and result.node not in given for result in tensors_of(results))
    if not own or not all(one.fake.is_leaf for one in closed_over if needs_gradient(one)):
        raise GraphBreak(
            "unknown-call", "torch.utils.checkpoint.checkpoint() with use_reentrant=True"
        )


def needs_gradient(value: Value) -> bool:
    return isinstance(value, TensorValue) and value.fake.requires_grad


@models(checkpoint.checkpoint)
def checkpoint_call(tx: TraceContext, function: Value, *args: Value, **kwargs: Value) -> Value:
    """One node that calls the checkpointed operations as a subgraph; without gradients, the
    operations themselves. Breaks where the function has side effects."""
    reentrant = is_reentrant(tx, args, kwargs)
    options = {name: kwargs.pop(name).constant() for name in OPTIONS if name in kwargs}
    contexts = kwargs.pop("context_fn", None)
    if contexts is not None:
        options["context_fn"] = known_contexts(tx, tx.look(contexts))
    start = tx.graph.mark()
    looked = [tx.look(arg) for arg in (*args, *kwargs.values())]
    with tx.modes.unknown_grad_mode("a checkpoint") if reentrant else contextlib.nullcontext():
        traced = interpret_without_effects(
            tx, looked, torch.is_grad_enabled(), lambda: function.call(tx, list(args), kwargs)
        )
    if not torch.is_grad_enabled() or not any(map(needs_gradient, [traced.value, *looked])):
        return traced.value
    results = traced.results(tx, "a checkpointed function")
    subgraph = extract_subgraph(traced.nodes, (), [tensor.node for tensor in tensors_of(results)])
    inputs: list[Any] = [tx.graph.value_of(node) for node in subgraph.inputs]
    tx.graph.rollback(start)
    given = {arg.node for arg in looked[: len(args)] if isinstance(arg, TensorValue)}
    if reentrant:
        require_equal_forms(results, [one for one in inputs if one.node not in given], given)
    saved = [position for position, node in enumerate(subgraph.inputs) if node in given]
    made = tx.graph.function(
        Checkpointed(subgraph.run, saved, {"use_reentrant": False, **options}), *inputs
    )
    return traced.wrap(results, made.unpack(tx))
