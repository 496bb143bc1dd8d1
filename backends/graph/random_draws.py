"""Which nodes of a captured graph draw random numbers. Operators are recognised by their names; one
that is switched off (a dropout in evaluation) draws none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import torch.fx

from .higher_order_call import HigherOrderCall
from .node_targets import is_foreign, is_foreign_target, is_users, name_of, subgraph_nodes
from .unread_nodes import unread_nodes

RANDOM = (
    "rand", "dropout", "bernoulli", "multinomial", "normal", "rrelu", "gumbel", "poisson",
    "exponential", "uniform", "scaled_dot_product", "cauchy", "geometric", "binomial", "dirichlet",
    "gamma", "lowrank", "lobpcg", "fractional_max_pool", "attention", "lstm", "gru", "rnn",
)  # fmt: skip


def draws_random_numbers(nodes: Iterable[torch.fx.Node]) -> bool:
    """Whether the graph may draw from torch's generators."""
    return any(map(_draws, nodes))


def draws_unread(graph: torch.fx.Graph) -> bool:
    """Whether a graph draws random numbers on which nothing that it returns or leaves in its inputs
    depends; tracers drop such draws, and later ones would draw other numbers."""
    return draws_random_numbers(graph.nodes) and any(map(_draws, unread_nodes(graph)))


def named_as_random(name: str) -> bool:
    """Whether an operator's name follows torch's convention for drawing random numbers."""
    return any(word in name for word in RANDOM)


def target_may_draw(target: Any) -> bool:
    """Whether a call of this function, or method, may draw from torch's generators."""
    if isinstance(target, str):
        return named_as_random(target)
    higher_order = isinstance(target, HigherOrderCall)
    return is_foreign_target(target) or higher_order or named_as_random(target.__name__)


def may_draw(node: torch.fx.Node) -> bool:
    """Whether a node may draw from torch's generators; an unknown function may."""
    return _draws(node) or is_foreign(node)


def _draws(node: torch.fx.Node) -> bool:
    if isinstance(node.target, HigherOrderCall):
        return any(map(_draws, subgraph_nodes(node)))
    return (
        node.op.startswith("call_") and named_as_random(name_of(node)) and not _drops_nothing(node)
    )


def _drops_nothing(node: torch.fx.Node) -> bool:
    """Whether a node is a dropout, or attention, that is switched off and draws no numbers."""
    name = name_of(node).strip("_")
    if is_users(node) or is_foreign(node):
        return False
    if name == "scaled_dot_product_attention":
        return _argument(node, 4, "dropout_p", otherwise=0.0) == 0
    if "dropout" not in name:
        return False
    kernel = name.startswith(("native", "fused"))  # these draw even for a probability of 0
    chance = 0.5 if kernel else _argument(node, 1, "p", otherwise=0.5)
    return chance == 0 or _argument(node, 2, "training", "train", otherwise=True) is False


def _argument(node: torch.fx.Node, position: int, *names: str, otherwise: Any) -> Any:
    if len(node.args) > position:
        return node.args[position]
    return next((node.kwargs[name] for name in names if name in node.kwargs), otherwise)
