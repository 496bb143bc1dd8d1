"""The targets of graph nodes: the name of the function that a node calls, and whether it is one of
torch's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.fx
from torch._library.custom_ops import CustomOpDef

from .distributed_call import DistributedCall
from .higher_order_call import HigherOrderCall
from .wrappers import is_wrapper

TORCHS_OPERATORS = ("aten", "prims", "prim", "higher_order")  # namespaces
# each a whole network of layers, which all but their own kernels take apart into steps
RECURRENT_OPERATORS = (torch.gru, torch.lstm, torch.rnn_tanh, torch.rnn_relu)
PYTHONS = ("_operator", "builtins", "math")  # modules whose functions may be called in graphs


def target_name(target: Any) -> str:
    """The name of a function, or of a method, which is its own name."""
    if isinstance(target, str):
        return target
    name = getattr(target, "__name__", None)  # asked of each node: str() would take longer
    return str(target) if name is None else name


def name_of(node: torch.fx.Node) -> str:
    return target_name(node.target)


def run_node(node: torch.fx.Node, value_of: Callable[[torch.fx.Node], Any]) -> Any:
    """The result of a call node on other values of its arguments."""
    args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), value_of)
    if node.op == "call_method":
        return getattr(args[0], str(node.target))(*args[1:], **kwargs)
    return node.target(*args, **kwargs)  # type: ignore[operator]


def namespace_of(target: Any) -> str:
    """The namespace of an operator, "" for any other function."""
    if isinstance(target, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
        return str(target).partition(".")[0]
    return ""


def is_users(node: torch.fx.Node) -> bool:
    """Whether a node calls an operator that the user registered with torch, or a user's
    autograd.Function: it may raise anything."""
    target: Any = node.target
    if isinstance(target, CustomOpDef):
        return True
    namespace = namespace_of(target)
    if namespace:
        return namespace not in TORCHS_OPERATORS
    owner = getattr(target, "__self__", None)
    return isinstance(owner, type) and issubclass(owner, torch.autograd.Function)


def subgraph_nodes(node: torch.fx.Node) -> Iterator[torch.fx.Node]:
    """The nodes of the graphs that a node passes to a higher-order operator, at all depths."""
    graphs = node.target.subgraphs if isinstance(node.target, HigherOrderCall) else ()
    for inner in graphs:
        for other in inner.graph.nodes:
            yield other
            yield from subgraph_nodes(other)


def is_foreign(node: torch.fx.Node) -> bool:
    """Whether a node calls an unknown function, neither torch's nor Python's, nor the class of a
    wrapper."""
    if isinstance(node.target, DistributedCall) or (
        isinstance(node.target, type) and is_wrapper(node.target)
    ):
        return False
    if isinstance(node.target, HigherOrderCall):
        return any(map(is_foreign, subgraph_nodes(node)))
    return is_foreign_target(node.target)


def is_foreign_target(target: Any) -> bool:
    """Whether a target is an unknown function, by the module that it is from."""
    home = "torch" if isinstance(target, str) else str(getattr(target, "__module__", "torch"))
    return "torch" not in home and home not in PYTHONS
