"""Operators that take floats as C's doubles, which no symbol fits. They do not decide what their
results are like, only their values: a chance, a scale, an epsilon.

A capture therefore makes fake results with the number of the call. A tracer of functional graphs
would make compiled code for that number alone: graphs with such a node run as captured.
"""

from __future__ import annotations

import torch
import torch.fx

from .node_targets import name_of

NAMES = frozenset(
    """dropout dropout_ dropout1d dropout2d dropout3d alpha_dropout alpha_dropout_ feature_dropout
    feature_dropout_ feature_alpha_dropout feature_alpha_dropout_ bernoulli bernoulli_ uniform_
    normal normal_ exponential_ cauchy_ log_normal_ geometric_ rrelu rrelu_
    layer_norm group_norm batch_norm instance_norm rms_norm cosine_similarity pairwise_distance
    logit logit_ isclose cdist smooth_l1_loss huber_loss cross_entropy margin_ranking_loss
    triplet_margin_loss cosine_embedding_loss hinge_embedding_loss poisson_nll_loss
    quantile nanquantile""".split()
)


def takes_varying_float(node: torch.fx.Node) -> bool:
    """Whether a node is a call of one of them with a number that varies."""
    return name_of(node) in NAMES and any(
        isinstance(operand.meta.get("example_value"), torch.SymFloat)
        for operand in node.all_input_nodes
    )
