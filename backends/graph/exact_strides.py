"""Whether the strides of a node's fake tensor are eager's also in dimensions of one element, where
sizes vary. torch's symbolic views often give these dimensions other strides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.fx

from .fake_values import fake_of
from .node_targets import name_of, run_node

# operators whose results on meta tensors have eager's strides
EXACT_ON_META = frozenset(
    ("contiguous", "expand", "flatten", "getitem", "masked_fill", "new_empty", "new_full",
     "new_ones", "new_zeros", "permute", "reshape", "squeeze", "to", "transpose", "type_as",
     "unflatten", "unsqueeze", "view")
)  # fmt: skip


def has_exact_strides(node: torch.fx.Node) -> bool:
    """Whether a tensor's strides are those that eager gives it for the sizes of this call, as far
    as that can be told: it is made from inputs by views and copies."""
    fake = fake_of(node)
    ones = [size for size in fake.shape if type(size) is int and size == 1]
    if node.op == "placeholder" or not ones:
        return True
    if name_of(node) not in EXACT_ON_META:
        return False
    tensors = [one for one in node.all_input_nodes if isinstance(fake_of(one), torch.Tensor)]
    if not all(map(has_exact_strides, tensors)):
        return False
    if "device" in node.kwargs:
        return False
    try:
        made = run_node(node, twin_of)
    except Exception:  # whatever torch raises for what is no such call
        return False
    return (
        isinstance(made, torch.Tensor)
        and made.is_meta
        and made.stride() == in_this_call(fake.stride())
    )


def twin_of(node: torch.fx.Node) -> Any:
    """A meta tensor with the layout that a node's result has in this call, or its number."""
    fake = fake_of(node)
    if not isinstance(fake, torch.Tensor):
        return in_this_call([fake])[0]
    sizes, strides = in_this_call(fake.shape), in_this_call(fake.stride())
    return torch.empty_strided(sizes, strides, dtype=fake.dtype, device="meta")


def in_this_call(numbers: Sequence[Any]) -> tuple[Any, ...]:
    """Numbers as they are in this call, which is not relied on."""
    return tuple(one.node.hint if isinstance(one, torch.SymInt) else one for one in numbers)
