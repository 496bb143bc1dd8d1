"""Operators for which torch has no kernel in some dtypes, or whose result cannot be cast to the
dtype of the tensor they write into. Fake tensors do not check this, so torch itself is asked, with
small tensors. The capture breaks there, and torch raises its error. It also breaks at an operator
whose result has another dtype than fake tensors say."""

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
from ....backends.graph.random_states import random_states_kept
from ....errors import GraphBreak

# By every kernel that takes one of them; on other devices than the CPU, but for a few, halves too.
# (There, a trial of a convolution or of attention may take long.)
SUPPORTED = frozenset({torch.float32, torch.float64})
HALVES = frozenset({torch.bfloat16, torch.float16})
REFUSALS = ("can't be cast", "implemented for", "support", "may not be")  # in messages of errors
EXAMPLES = {torch.SymInt: 1, torch.SymFloat: 1.0, torch.SymBool: True}  # any number of the type
LARGEST = 8  # size, or other integer, in a trial


def dtypes_of_trial(
    kind: str, target: Any, args: list[Any], kwargs: dict[str, Any]
) -> set[torch.dtype]:
    """The dtypes of the tensors that one of torch's operators returns; none if it is not tried.
    Breaks if torch refuses the dtypes of its operands. Called after it has run on fake tensors,
    which refuse what has a body in C++ that trusts the sizes of its operands (quasirandom numbers):
    on small tensors it would write to memory of other objects."""
    leaves = pytree.arg_tree_leaves(*args, **kwargs)
    if not _has_uncommon_dtype(leaves) or not _may_be_tried(target):
        return set()
    if any(isinstance(leaf, torch.Generator) for leaf in leaves):  # the program's own
        return set()
    try:
        with torch.no_grad(), random_states_kept(leaves):
            return dtypes_of(apply_node(kind, target, *pytree.tree_map(_shrink, (args, kwargs))))
    except Exception as error:  # of another kind: of these sizes, not of the dtypes
        if any(refusal in str(error) for refusal in REFUSALS):
            name = target_name(target)
            raise GraphBreak("exception-leaves", f"RuntimeError of {name}") from error
    return set()


def check_dtypes(name: str, result: Any, tried: set[torch.dtype]) -> None:
    """Breaks if a fake result has another dtype than that of a trial."""
    if tried and dtypes_of(result) != tried:
        raise GraphBreak("fake-tensor", f"{name}: its result has another dtype")


def dtypes_of(result: Any) -> set[torch.dtype]:
    leaves = pytree.tree_leaves(result)
    return {leaf.dtype for leaf in leaves if isinstance(leaf, torch.Tensor)}


def apply_node(kind: str, target: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
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
    on_cpu = all(tensor.device.type == "cpu" for tensor in tensors)
    usual = SUPPORTED if on_cpu else SUPPORTED | HALVES
    return named or len(dtypes) > 1 or not dtypes <= usual


def _may_be_tried(target: Any) -> bool:
    """Whether a call does nothing but compute: others' operators may do anything, and so may the
    functions that a higher-order operator calls."""
    return (
        namespace_of(target) in ("", *TORCHS_OPERATORS)
        and not isinstance(target, torch._ops.HigherOrderOperator)
        and not is_foreign_target(target)
        and not isinstance(getattr(target, "__self__", None), type)  # an autograd.Function
    )


def _shrink(value: Any) -> Any:
    """A small tensor or number of the same type. Integers may be sizes, so they shrink alike. Those
    in a tensor may be positions: 0 is one in a dimension of any size, where others would make a GPU
    unusable for the process."""
    if isinstance(value, torch.Tensor):
        shape = [min(size, LARGEST) if type(size) is int else LARGEST for size in value.shape]
        fill = int(value.dtype is torch.bool or value.is_floating_point() or value.is_complex())
        return torch.full(shape, fill, dtype=value.dtype, device=value.device)
    if type(value) is slice:
        return slice(*map(_shrink, (value.start, value.stop, value.step)))
    return min(value, LARGEST) if type(value) is int else EXAMPLES.get(type(value), value)
