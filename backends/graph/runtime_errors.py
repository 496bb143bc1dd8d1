"""Which nodes of a captured graph may raise because of tensor values, draw random numbers, or
switch modes. (Errors in shapes and dtypes are found during capture.)"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import torch
import torch.fx

from .collectives import is_collective
from .memory import memory_at
from .mutations import may_write, written_nodes
from .node_targets import is_foreign, is_users, name_of, subgraph_nodes

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
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint16,
    torch.uint32,
    torch.uint64,
)
RANDOM = (
    "rand", "dropout", "bernoulli", "multinomial", "normal", "rrelu", "gumbel", "poisson",
    "exponential", "uniform", "scaled_dot_product", "cauchy", "geometric", "binomial", "dirichlet",
    "gamma", "lowrank", "lobpcg", "fractional_max_pool", "attention", "lstm", "gru", "rnn",
)  # fmt: skip


OVERWRITES = ("zero_", "fill_", "copy_")

GRAD_MODE = "_set_grad_enabled"
ENTER_AUTOCAST, EXIT_AUTOCAST = "_enter_autocast", "_exit_autocast"
ENTER_INFERENCE_MODE = "_enter_inference_mode"
MODES = (
    GRAD_MODE, ENTER_AUTOCAST, ENTER_INFERENCE_MODE, "_vmap_increment_nesting",
    "_grad_increment_nesting", "_jvp_increment_nesting",
)  # fmt: skip


def may_raise(node: torch.fx.Node) -> bool:
    """Whether a node may raise although its shapes fit. Not asked of collectives: where one fails,
    the processes of its group have lost each other."""
    if is_collective(node):
        return False
    name = name_of(node)
    always = any(word in name for word in ALWAYS) or not PARTS.isdisjoint(re.split("[_.]", name))
    known = always or (
        any(word in name for word in INDEX) and takes_integers(node) and not is_true_division(node)
    )
    inside = any(map(may_raise, subgraph_nodes(node)))
    return known or inside or is_users(node) or is_foreign(node)


def is_true_division(node: torch.fx.Node) -> bool:
    """Whether a node divides without rounding, which no number can make raise."""
    return name_of(node).strip("_") in TRUE_DIVISIONS and "rounding_mode" not in node.kwargs


def takes_integers(node: torch.fx.Node) -> bool:
    """Whether one of its arguments is an integer tensor on the CPU."""
    examples = [argument.meta.get("example_value") for argument in node.all_input_nodes]
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
    if not any(map(may_raise, graph.nodes)):
        return False
    return any(may_raise(node) and "assert" not in name_of(node) for node in unread_nodes(graph))


def unread_nodes(graph: torch.fx.Graph) -> list[torch.fx.Node]:
    """Calls on which nothing that the graph returns or leaves in its inputs depends."""
    unread = []
    needed = set(graph.output_node().all_input_nodes)
    read = {memory_at(node) for node in (*needed, *graph.find_nodes(op="placeholder"))} - {None}
    for node in reversed(graph.nodes):
        if not node.op.startswith("call_"):
            continue
        writes = may_write(node) and any(memory_at(other) in read for other in written_nodes(node))
        if node in needed or writes:
            inputs = node.all_input_nodes
            if node not in needed and name_of(node).startswith("_foreach_"):
                apart = {other for other in written_nodes(node) if memory_at(other) not in read}
                inputs = [other for other in inputs if other not in apart]  # written for nobody
            if overwrites(node):
                target, *inputs = inputs
                needed.discard(target)
                read.discard(memory_at(target))
            needed.update(inputs)
            read.update(memory for other in inputs if (memory := memory_at(other)) is not None)
        else:
            unread.append(node)
    return unread


def overwrites(node: torch.fx.Node) -> bool:
    """Whether a node overwrites all of its first argument's memory and reads none of it."""
    if name_of(node) not in OVERWRITES or node.args[0] in node.args[1:]:
        return False
    example = node.all_input_nodes[0].meta.get("example_value")
    if not isinstance(example, torch.Tensor) or example.layout is not torch.strided:
        return False
    there = example.untyped_storage().nbytes()
    known = all(type(size) is int for size in (*example.shape, there))
    return known and example.numel() * example.element_size() == there


def switches_modes(node: torch.fx.Node) -> bool:
    """Whether a node switches one of torch's modes for later nodes."""
    return name_of(node) in MODES


def draws_random_numbers(nodes: Iterable[torch.fx.Node]) -> bool:
    """Whether the graph may draw from torch's generators."""
    return any(map(_draws, nodes))


def draws_unread(graph: torch.fx.Graph) -> bool:
    """Whether a graph draws random numbers on which nothing that it returns or leaves in its inputs
    depends; tracers drop such draws, and those behind them would draw other numbers."""
    return draws_random_numbers(graph.nodes) and any(map(_draws, unread_nodes(graph)))


def named_as_random(name: str) -> bool:
    """Whether an operator's name follows torch's convention for drawing random numbers."""
    return any(word in name for word in RANDOM)


def may_draw(node: torch.fx.Node) -> bool:
    """Whether a node may draw from torch's generators; an unknown function may."""
    return _draws(node) or is_foreign(node)


def _draws(node: torch.fx.Node) -> bool:
    if hasattr(node.target, "subgraphs"):
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
