"""torch.utils.checkpoint: the call becomes one node of the graph, which runs under torch's own
checkpoint."""

from __future__ import annotations

import torch
from torch.utils import checkpoint

from ....backends.graph.extracted_calls import Checkpointed, extract_subgraph
from ....errors import GraphBreak
from ..base import Value
from ..context import TraceContext
from ..registry import models
from ..tensor.tensor import TensorValue
from ..tensor.traced_call import interpret_without_effects, tensors_of

OPTIONS = ("preserve_rng_state", "debug", "early_stop")


@models(checkpoint.checkpoint)
def checkpoint_call(tx: TraceContext, function: Value, *args: Value, **kwargs: Value) -> Value:
    reentrant = kwargs.pop("use_reentrant", None)
    if reentrant is None or reentrant.truth(tx):
        raise GraphBreak(
            "unknown-call", "torch.utils.checkpoint.checkpoint() with use_reentrant=True"
        )
    if "context_fn" in kwargs or "determinism_check" in kwargs:
        raise GraphBreak(
            "unknown-call",
            "torch.utils.checkpoint.checkpoint() with context_fn or determinism_check",
        )
    options = {name: kwargs.pop(name).constant() for name in OPTIONS if name in kwargs}
    start = tx.graph.mark()
    looked = [tx.look(arg) for arg in (*args, *kwargs.values())]
    traced = interpret_without_effects(
        tx, looked, torch.is_grad_enabled(), lambda: function.call(tx, list(args), kwargs)
    )
    if not torch.is_grad_enabled() or not any(
        isinstance(v, TensorValue) and v.fake.requires_grad for v in [traced.value, *looked]
    ):
        return traced.value
    results = traced.results(tx, "a checkpointed function")
    subgraph = extract_subgraph(traced.nodes, (), [tensor.node for tensor in tensors_of(results)])
    inputs: list[Value] = [tx.graph.value_of(node) for node in subgraph.inputs]
    tx.graph.rollback(start)
    given = {arg.node for arg in looked[: len(args)] if isinstance(arg, TensorValue)}
    saved = [position for position, node in enumerate(subgraph.inputs) if node in given]
    made = tx.graph.function(
        Checkpointed(subgraph.run, saved, {"use_reentrant": False, **options}), *inputs
    )
    return traced.wrap(results, made.unpack(tx))
