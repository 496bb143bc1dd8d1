"""Operators for which torch has no kernel in some dtypes, or whose result cannot be cast to the
dtype of the tensor they write into. Fake tensors do not check this, so torch itself is asked, with
small tensors. The capture breaks there, and torch raises its error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree

from ....backends.graph.node_targets import (
    TORCHS_OPERATORS,
    is_foreign_target,
    namespace_of,
    target_name,
)
from ....backends.graph.random_draws import named_as_random

SUPPORTED = frozenset({torch.float32, torch.float64})  # by every kernel that takes one of them
REFUSALS = ("can't be cast", "implemented for", "support", "may not be")  # in messages of errors
EXAMPLES = {torch.SymInt: 1, torch.SymFloat: 1.0, torch.SymBool: True}  # any number of the type
LARGEST = 8  # size, or other integer, in a trial


def refuses_dtypes(kind: str, target: Any, args: list[Any], kwargs: dict[str, Any]) -> bool:
    """Whether one of torch's operators raises because of the dtypes of its tensors."""
    if not _has_uncommon_dtype(pytree.arg_tree_leaves(*args, **kwargs)) or not _may_be_tried(
        target
    ):
        return False
    draws = named_as_random(target_name(target))
    state = torch.get_rng_state() if draws else None
    try:
        with torch.no_grad():
            apply(kind, target, *pytree.tree_map(_shrink, (args, kwargs)))
    except Exception as error:  # of another kind: of these sizes, not of the dtypes
        return any(refusal in str(error) for refusal in REFUSALS)
    finally:
        if state is not None:
            torch.set_rng_state(state)
    return False


def apply(kind: str, target: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Applies a node's operation to objects."""
    if kind == "call_method":
        return getattr(args[0], target)(*args[1:], **kwargs)
    return target(*args, **kwargs)


def _has_uncommon_dtype(leaves: Sequence[Any]) -> bool:
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    if not tensors or any(tensor.layout is not torch.strided for tensor in tensors):
        return False
    dtypes = {tensor.dtype for tensor in tensors}
    named = any(isinstance(leaf, complex | torch.dtype) for leaf in leaves)
    return named or len(dtypes) > 1 or not dtypes <= SUPPORTED


def _may_be_tried(target: Any) -> bool:
    """Whether a call does nothing but compute: others' operators may do anything."""
    return (
        namespace_of(target) in ("", *TORCHS_OPERATORS)
        and not is_foreign_target(target)
        and not isinstance(getattr(target, "__self__", None), type)  # an autograd.Function
    )


def _shrink(value: Any) -> Any:
    """A small tensor or number of the same type. Integers may be sizes, so they shrink alike."""
    if isinstance(value, torch.Tensor):
        shape = [min(size, LARGEST) if type(size) is int else LARGEST for size in value.shape]
        return torch.ones(shape, dtype=value.dtype, device=value.device)
    return min(value, LARGEST) if type(value) is int else EXAMPLES.get(type(value), value)
