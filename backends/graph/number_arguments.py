"""Operators with a C double or int argument, which cannot be a symbol.

Most such numbers do not decide the layout of results, only their values: a probability, a scale, an
epsilon. So a capture makes fake results with the number of the call. Others are the size of the
result's last dimension. A tracer of functional graphs would specialise the compiled code to one
number, so nodes of these operators run as captured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.fx

from .fake_values import fake_of
from .node_targets import name_of

# with floats that decide values only
NAMES = frozenset(
    """dropout dropout_ dropout1d dropout2d dropout3d alpha_dropout alpha_dropout_ feature_dropout
    feature_dropout_ feature_alpha_dropout feature_alpha_dropout_ bernoulli bernoulli_ uniform_
    normal normal_ exponential_ cauchy_ log_normal_ geometric_ rrelu rrelu_
    layer_norm group_norm batch_norm instance_norm rms_norm cosine_similarity pairwise_distance
    logit logit_ isclose cdist smooth_l1_loss huber_loss cross_entropy margin_ranking_loss
    triplet_margin_loss cosine_embedding_loss hinge_embedding_loss poisson_nll_loss
    quantile nanquantile scaled_dot_product_attention""".split()
)
# with floats any of which is allowed and treated alike
FREE = frozenset("nan_to_num nan_to_num_ trapezoid pad constant_pad_nd".split())
FREE_BY_NAME = {"scaled_dot_product_attention": "scale"}
# the same of ints, which are given by these names
INTS = {
    **dict.fromkeys(("std", "var", "std_mean", "var_mean", "cov"), "correction"),
    **dict.fromkeys(("round", "round_"), "decimals"),
    "pad": "value",  # a float, which may be given as an int
}
# the length of the result's last dimension: its position and name
LENGTHS = {
    **dict.fromkeys(("linspace", "logspace"), (2, "steps")),
    **dict.fromkeys(
        ("bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window"),
        (0, "window_length"),
    ),
    "one_hot": (1, "num_classes"),
}


def length_argument(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The argument that is the length of the result of the operator of this name; None without
    one."""
    if name not in LENGTHS:
        return None
    position, keyword = LENGTHS[name]
    return args[position] if position < len(args) else kwargs.get(keyword)


def takes_varying_length(node: torch.fx.Node) -> bool:
    """Whether a node is a call of one of them with a length that varies."""
    return is_symbol(length_argument(name_of(node), node.args, node.kwargs), torch.SymInt)


def takes_varying_number(node: torch.fx.Node) -> bool:
    """Whether a node is a call of one of them with a number that varies."""
    name = name_of(node)
    return (
        takes_varying_length(node)
        or is_symbol(node.kwargs.get(INTS.get(name, "")), torch.SymInt)
        or (
            name in NAMES | FREE
            and any(is_symbol(one, torch.SymFloat) for one in node.all_input_nodes)
        )
    )


def is_symbol(argument: Any, kind: type) -> bool:
    """Whether an argument of a node is a node that gives such a symbol."""
    return isinstance(argument, torch.fx.Node) and isinstance(fake_of(argument), kind)
