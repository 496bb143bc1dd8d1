"""Which nodes of a captured graph may raise because of tensor values. (Errors in shapes and dtypes
are found during capture.)"""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from functools import lru_cache

import torch
import torch.fx

from .collectives import is_collective
from .fake_values import fake_of
from .gradient_history import is_one_of_several_views
from .mutations import may_write
from .node_targets import is_foreign, is_users, name_of, subgraph_nodes
from .unread_nodes import unread_nodes

# Words in an operator's name. INDEX: it raises for an integer out of range, on the CPU. (CUDA
# reports it later, by an assertion.)
INDEX = (
    "index", "embedding", "gather", "scatter", "take", "put", "one_hot", "nll_loss",
    "cross_entropy", "bincount", "getitem", "setitem", "repeat_interleave", "ctc_loss",
    "max_unpool", "div", "remainder", "mod", "pow", "margin_loss", "searchsorted", "tensor_split",
    "narrow",
)  # fmt: skip
ALWAYS = (
    "assert", "bernoulli", "multinomial", "normal", "poisson", "binomial", "cholesky", "inverse",
    "solve", "logdet", "geqrf", "ormqr", "orgqr", "lstsq", "matrix_rank", "pinv", "grid_sampler",
    "histc", "linalg", "binary_cross_entropy", "masked_scatter", "segment_reduce", "quantile",
    "histogram", "fake_quantize", "istft", "gaussian_nll", "as_strided",
)  # fmt: skip
# the same, of whole parts of a name: "sqrt" and "detach" contain some of these
PARTS = frozenset({"inv", "svd", "eig", "qr", "det", "cov"})

TRUE_DIVISIONS = ("truediv", "itruediv", "true_divide", "div", "divide", "div.Tensor")

INTEGERS = (
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32,
    torch.uint64,
)  # fmt: skip


def may_raise(node: torch.fx.Node) -> bool:
    """Whether a node may raise although its shapes fit. Collectives do not count: if one fails, the
    processes of its group are out of step in any case."""
    if is_collective(node):
        return False
    name = name_of(node)
    known = raises_for_values(name) or (
        raises_for_integers(name) and takes_integers(node) and not is_true_division(node)
    )
    inside = any(map(may_raise, subgraph_nodes(node)))
    return known or inside or is_users(node) or is_foreign(node)


@lru_cache(maxsize=4096)
def raises_for_values(name: str) -> bool:
    """Whether an operator of this name may raise for any arguments."""
    return any(word in name for word in ALWAYS) or not PARTS.isdisjoint(re.split("[_.]", name))


@lru_cache(maxsize=4096)
def raises_for_integers(name: str) -> bool:
    """Whether an operator of this name may raise if it is given integers."""
    return any(word in name for word in INDEX)


def is_true_division(node: torch.fx.Node) -> bool:
    """Whether a node divides without rounding, which no number can make raise."""
    return name_of(node).strip("_") in TRUE_DIVISIONS and "rounding_mode" not in node.kwargs


def takes_integers(node: torch.fx.Node) -> bool:
    """Whether one of its arguments is an integer tensor on the CPU; of indexing, in the index."""
    arguments = node.all_input_nodes
    if node.target in (operator.getitem, operator.setitem):
        arguments = []
        torch.fx.map_arg(node.args[1], arguments.append)
    examples = [fake_of(argument) for argument in arguments]
    return any(
        isinstance(example, torch.Tensor)
        and example.device.type == "cpu"
        and example.dtype in INTEGERS
        for example in examples
    )


def raises_after_writing(nodes: Sequence[torch.fx.Node]) -> bool:
    """Whether a node that may raise comes after (or is) one that writes."""
    writes = next((position for position, node in enumerate(nodes) if may_write(node)), len(nodes))
    return any(may_raise(node) for node in nodes[writes:])


def raises_unread(graph: torch.fx.Graph) -> bool:
    """Whether a node may raise on which no result and no written input depends; tracers drop such
    nodes."""
    may = [node for node in graph.nodes if may_raise(node) or reads_one_of_several_views(node)]
    if not may:
        return False
    unread = set(unread_nodes(graph))
    return any(node in unread and "assert" not in name_of(node) for node in may)


def reads_one_of_several_views(node: torch.fx.Node) -> bool:
    """Whether a node reads an input that an operator such as `chunk` gave, with a gradient history.
    Autograd raises at the first use of such a view whose base was written since."""
    return any(
        argument.op == "placeholder" and is_one_of_several_views(argument)
        for argument in node.all_input_nodes
    )
