"""torch's higher-order operators. associative_scan is inlined, since its kernel for plain tensors
is Python. The others break: in eager they call torch.compile, which refuses functions that a kernel
would run."""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch
from torch._C import DispatchKey
from torch._ops import HigherOrderOperator

from ....errors import GraphBreak
from ..base import Value
from ..objects.user_object import UserObject
from ..registry import models
from ..tensor.tensor import TensorValue

if TYPE_CHECKING:
    from ..context import TraceContext

LOOKED_INTO = frozenset({"associative_scan"})


@models(HigherOrderOperator.__call__)
def call(tx: TraceContext, operator: Value, *args: Value, **kwargs: Value) -> Value:
    real: Any = operator.real if isinstance(operator, UserObject) else None
    name = real._name if isinstance(real, HigherOrderOperator) else ""
    kernel = (
        real.py_kernels.get(DispatchKey.CompositeExplicitAutograd) if name in LOOKED_INTO else None
    )
    if type(kernel) is not FunctionType or len(args) != 3 or kwargs:
        raise GraphBreak("unknown-call", f"the higher-order operator {name or operator.describe()}")
    combine, scanned, additional = args
    if differentiable(tx, additional):
        raise GraphBreak(
            "exception-leaves",
            "RuntimeError: associative_scan has no gradients for additional inputs",
        )
    found = tx.wrap(kernel, None).call(tx, [combine, scanned, additional], {})
    if not differentiable(tx, scanned):
        return found
    # a tuple of new tensors, as its kernel for autograd makes them
    given, results = (scanned.unpack(tx), found.unpack(tx))
    if any(result.same(leaf) for result in results for leaf in given):
        raise GraphBreak("unknown-call", "associative_scan of one item, with gradients")
    return tx.make.tuple_of(results)


def differentiable(tx: TraceContext, tensors: Value) -> bool:
    """Whether gradients are calculated for one of them."""
    leaves = (tx.look(item) for item in tensors.unpack(tx))
    return torch.is_grad_enabled() and any(
        isinstance(leaf, TensorValue) and leaf.fake.requires_grad for leaf in leaves
    )
