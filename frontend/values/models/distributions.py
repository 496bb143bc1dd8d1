"""torch.distributions: properties that are calculated when first read, and checks of matrices."""

from __future__ import annotations

import torch
from torch.distributions import constraints, utils

from ..base import Value
from ..constant import Constant
from ..context import TraceContext
from ..objects.frozen_object import FrozenObject
from ..registry import models
from ..tensor.tensor import TensorValue


@models(utils._lazy_property_and_property)
def lazy_property(tx: TraceContext, wrapped: Value) -> Value:
    """The property object itself, as reading it from the class gives."""
    real = getattr(wrapped, "real", None)
    if real is None:
        raise wrapped.unsupported_use("as a lazy property")
    return FrozenObject(utils._lazy_property_and_property(real))


@models(("torch.distributions.distribution", "_all_true_or_runtime_assert"))
def all_true(tx: TraceContext, valid: Value, error_message: Value) -> Value:
    """The condition of an argument check (from torch 2.15 on): returns the tensor, so that the
    branch becomes an expectation."""
    return tx.graph.function(torch._is_all_true, valid)


@models(constraints._Symmetric.check)
def symmetric(tx: TraceContext, constraint: Value, value: Value) -> Value:
    rows, columns = matrix(value).fake.shape[-2:]
    if rows != columns:
        sizes = tx.wrap(matrix(value).fake.shape[:-2], None)
        return tx.graph.function(
            torch.full, sizes, Constant(False), device=tx.wrap(matrix(value).fake.device, None)
        )
    turned = value.attribute(tx, "mT")
    close = tx.graph.function(torch.isclose, value, turned, atol=Constant(1e-6))
    return close.method(tx, "all", [Constant(-2)], {}).method(tx, "all", [Constant(-1)], {})


@models(constraints._PositiveDefinite.check)
def positive_definite(tx: TraceContext, constraint: Value, value: Value) -> Value:
    """Whether matrices are positive definite. Python checks symmetry before it decomposes any
    matrix; here all are decomposed, without raising."""
    even = symmetric(tx, constraint, value)
    if matrix(value).fake.shape[-2] != matrix(value).fake.shape[-1]:
        return even
    decomposed = tx.graph.function(torch.linalg.cholesky_ex, value).attribute(tx, "info")
    definite = decomposed.method(tx, "eq", [Constant(0)], {})
    return tx.graph.function(torch.where, even.method(tx, "all", [], {}), definite, even)


def matrix(value: Value) -> TensorValue:
    if not isinstance(value, TensorValue) or value.fake.dim() < 2:
        raise value.unsupported_use("as a matrix")
    return value


@models(torch._C._infer_size)
def infer_size(tx: TraceContext, left: Value, right: Value) -> Value:
    return tx.graph.function(torch.broadcast_shapes, left, right)
