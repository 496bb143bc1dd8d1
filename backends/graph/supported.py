"""Whether a backend supports a captured graph, and whether the autotuner may try it."""

from __future__ import annotations

from itertools import chain

import torch
import torch.fx

from ..registry import Backend
from .collectives import may_communicate
from .extracted_calls import Checkpointed, CustomFunction, inner_nodes
from .fake_values import fake_of
from .gradient_history import gains_history, wants_gradients
from .node_targets import is_foreign, name_of

COLLECTIVES = (
    "c10d", "distributed", "dtensor", "all_reduce", "all_gather", "reduce_scatter", "all_to_all",
)  # fmt: skip


def device_types(gm: torch.fx.GraphModule) -> set[str]:
    """The device types of a graph's tensors."""
    return {
        fake.device.type
        for node in gm.graph.nodes
        if isinstance(fake := fake_of(node), torch.Tensor)
    }


def reason_to_refuse(backend: Backend, gm: torch.fx.GraphModule) -> str:
    """Why a backend cannot run a graph; "" if it can."""
    lacks = backend.missing()
    if lacks:
        return f"is not usable here: {lacks}"
    others = device_types(gm) - set(backend.devices) if backend.devices is not None else set()
    if others:
        return (
            f"is for {' and '.join(backend.devices or ())}, and the graph has tensors on "
            f"{' and '.join(sorted(others))}"
        )
    if not backend.training and wants_gradients(gm):
        return "has no gradients, and the graph needs them"
    return ""


def reason_not_to_try(gm: torch.fx.GraphModule) -> str:
    """Why a graph must not be run for a trial (the same on each rank); "" if it may."""
    if any(map(gains_history, gm.graph.find_nodes(op="placeholder"))):
        return "an input gets a history of autograd's, which a trial's copies could not have"
    for node in chain.from_iterable(map(inner_nodes, gm.graph.nodes)):
        if any(
            word in f"{getattr(node.target, '__module__', '')}.{name_of(node)}"
            for word in COLLECTIVES
        ):
            return f"{name_of(node)} talks to other processes{line_of(node)}"
        if may_communicate(node):
            return f"{name_of(node)} may talk to other processes{line_of(node)}"
        if is_opaque(node):
            return f"nothing is known of {name_of(node)}{line_of(node)}"
    return ""


def is_opaque(node: torch.fx.Node) -> bool:
    """Whether a node calls a function that is neither torch's nor Python's: it may do anything."""
    if node.op != "call_function" or isinstance(node.target, CustomFunction | Checkpointed):
        return False
    return is_foreign(node)


def line_of(node: torch.fx.Node) -> str:
    """The user's line of a node, for a message."""
    line = node.meta.get("line", "")
    return f" ({line})" if line else ""
