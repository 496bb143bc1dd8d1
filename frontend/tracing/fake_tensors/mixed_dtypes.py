"""Operators that torch refuses because their tensors have several dtypes, which fake tensors do not
check. An error raised in the graph would come after earlier Python effects were expected; a break
avoids that."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

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


def _tensors(values: Iterable[Any]) -> Iterable[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)
