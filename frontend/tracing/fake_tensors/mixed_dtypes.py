"""Operators that torch refuses because their tensors have several dtypes, which fake tensors do not
check. An error raised in the graph would come after earlier Python effects were expected; a break
avoids that."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.utils._pytree as pytree

from ....backends.graph.node_targets import target_name

PRODUCTS = frozenset({
    "linear", "bilinear", "matmul", "__matmul__", "imatmul", "mm", "bmm", "mv", "dot", "addmm",
    "addmm_", "addmv", "addmv_", "addbmm", "addbmm_", "baddbmm", "baddbmm_", "einsum", "tensordot",
    "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "cdist", "grid_sample",
})  # fmt: skip
# half precision goes together with float32
NORMS = frozenset({"layer_norm", "batch_norm", "group_norm", "instance_norm"})
# self, dim, index, source
BY_INDEX = frozenset({"index_add", "index_add_", "index_copy", "index_copy_"})
NUMBERS = {
    int: torch.int64,
    float: torch.float64,
    complex: torch.complex128,
    torch.SymInt: torch.int64,
    torch.SymFloat: torch.float64,
}
SYMBOLS = {torch.SymInt: 1, torch.SymFloat: 1.0, torch.SymBool: True}  # any number of the type
FLOATING = 2  # a category
REFUSALS = ("can't be cast", "implemented for", "supported")  # in messages of errors


def has_mixed_dtypes(target: Any, args: list[Any], kwargs: dict[str, Any]) -> bool:
    """Whether an operator that needs one dtype is given several. Under autocast, products get
    converted operands."""
    name = target_name(target)
    if name in BY_INDEX:
        given = list(_tensors((args[0], *args[3:], kwargs.get("source"))))
        return len({tensor.dtype for tensor in given}) > 1
    if name not in PRODUCTS and name not in NORMS:
        return False
    given = list(_tensors((*args, *kwargs.values())))
    dtypes = {tensor.dtype for tensor in given}
    if len(dtypes) < 2 or (name in NORMS and torch.float64 not in dtypes):
        return False
    return not any(torch.is_autocast_enabled(tensor.device.type) for tensor in given)


def refuses_dtypes(
    apply: Callable[[list[Any], dict[str, Any]], Any], args: list[Any], kwargs: dict[str, Any]
) -> bool:
    """Whether an operator that writes into its first argument computes something that cannot be
    cast to that argument's dtype, or has no kernel for it. Some meta kernels (`mul_`, `logit_`,
    `heaviside_`) do not check it, so torch itself is asked, with small tensors of ones on the
    CPU."""
    others = pytree.arg_tree_leaves(*args[1:], **kwargs)
    if args[0].is_floating_point() and all(_agrees(args[0], other) for other in others):
        return False
    try:
        apply(*pytree.tree_map(_small, (args, kwargs)))
    except Exception as error:  # of another kind: of these tensors, not of the dtypes
        said = str(error)
        return any(refusal in said for refusal in REFUSALS)
    return False


def _agrees(written: torch.Tensor, other: Any) -> bool:
    """Whether an operand can be written into a floating-point tensor by any operator."""
    if isinstance(other, torch.Tensor):
        return other.dtype == written.dtype
    return _category(other) <= FLOATING


def _category(value: Any) -> int:
    """Where the type of a tensor or number stands in type promotion: bool, integer, floating point,
    complex."""
    dtype = value.dtype if isinstance(value, torch.Tensor) else NUMBERS.get(type(value), torch.bool)
    return 3 if dtype.is_complex else 2 if dtype.is_floating_point else int(dtype != torch.bool)


def _small(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return torch.ones([2] * value.dim(), dtype=value.dtype)
    return SYMBOLS.get(type(value), value)


def _tensors(values: Iterable[Any]) -> Iterable[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)
