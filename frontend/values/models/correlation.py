"""torch.cov and torch.corrcoef, as the operators that torch's kernels call. These read a value only
to warn where there are too few observations; without weights that is a question of sizes."""

from __future__ import annotations

from typing import Any

import torch
from torch._C._functorch import is_functorch_wrapped_tensor

from ..base import Value
from ..constant import Constant
from ..context import TraceContext
from ..registry import method, models
from ..tensor.symbolic_number import python_or_symbol
from ..tensor.tensor import TensorValue


@method(torch.Tensor, "cov")
def cov(
    tx: TraceContext,
    self: TensorValue,
    *,
    correction: Value | None = None,
    fweights: Value | None = None,
    aweights: Value | None = None,
) -> Value:
    """Without weights, the covariance in operators that read no value; else one node."""
    given = {"correction": correction, "fweights": fweights, "aweights": aweights}
    named = {name: tx.look(value) for name, value in given.items() if value is not None}
    weights = [named[name] for name in ("fweights", "aweights") if name in named]
    taken_off = named.get("correction", Constant(1))
    if (
        not all(weight.is_none() for weight in weights)
        or taken_off.python_type() is not int
        or not can_be_correlated(tx, self, python_or_symbol(taken_off))
    ):
        return tx.graph.call("call_method", "cov", [self], named)
    return covariance(tx, self, taken_off)


@method(torch.Tensor, "corrcoef")
def corrcoef(tx: TraceContext, self: TensorValue) -> Value:
    """Covariances divided by both deviations, as in torch's kernel."""
    if not can_be_correlated(tx, self, 1):
        return tx.graph.call("call_method", "corrcoef", [self], {})
    covariances = covariance(tx, self, Constant(1))
    if not covariances.fake.dim():
        return tx.graph.call("call_method", "div", [covariances, covariances], {})
    deviations = tx.graph.call("call_method", "diag", [covariances], {})
    if covariances.fake.is_complex():
        deviations = tx.graph.function(torch.real, deviations)
    deviations = tx.graph.function(torch.sqrt, deviations)
    result: Value = covariances
    for shape in ((-1, 1), (1, -1)):
        size = [Constant(size) for size in shape]
        divisors = tx.graph.call("call_method", "view", [deviations, *size], {})
        result = tx.graph.call("call_method", "div", [result, divisors], {})
    if not covariances.fake.is_complex():
        return clip_to_one(tx, result)
    parts = (tx.graph.function(part, result) for part in (torch.real, torch.imag))
    return tx.graph.function(torch.complex, *[clip_to_one(tx, part) for part in parts])


def can_be_correlated(tx: TraceContext, tensor: TensorValue, correction: Any) -> bool:
    """Whether torch takes a tensor, and has enough observations in it."""
    fake = tensor.fake
    if (
        fake.dim() > 2
        or (isinstance(correction, torch.SymInt) and correction.node.hint is None)
        or fake.layout is not torch.strided
        or fake.dtype is torch.bool
        or fake.device.type == "meta"
        or is_functorch_wrapped_tensor(fake)
    ):
        return False
    observations = fake.shape[-1] if fake.dim() == 2 else fake.numel()
    enough = (observations > correction, observations > 0, fake.numel() > 0)
    if all(type(fact) is bool for fact in enough):
        return all(enough)
    shapes = tx.symbols.shapes
    return not shapes.depends_on_values(fake) and all(map(shapes.decide, enough))


def covariance(tx: TraceContext, tensor: TensorValue, correction: Value) -> TensorValue:
    """The covariances of the rows of a matrix, or the variance of a vector."""

    def call(name: str, *args: Value) -> Value:
        return tx.graph.call("call_method", name, list(args), {})

    rows: Value = tensor
    if tensor.fake.dim() < 2:
        rows = call("view", tensor, Constant(1), Constant(-1))
    count = tx.graph.function(
        torch.scalar_tensor,
        tx.wrap(rows.fake.shape[1], None),  # type: ignore[attr-defined]
        dtype=Constant(torch.int64),
        device=Constant(tensor.fake.device),
    )
    means = call("div", call("sum", rows, Constant(1)), count)
    freedom = call("sub", count, correction)
    centred = call("sub", rows, call("unsqueeze", means, Constant(1)))
    products = call("mm", centred, call("conj", call("t", centred)))
    result = call("squeeze", call("true_divide", products, freedom))
    assert isinstance(result, TensorValue)
    return result


def clip_to_one(tx: TraceContext, tensor: Value) -> Value:
    return tx.graph.call("call_method", "clip", [tensor, Constant(-1), Constant(1)], {})


def _function(function: object, name: str) -> None:
    @models(function)
    def call(tx: TraceContext, input: Value, **kwargs: Value) -> Value:
        return tx.look(input).method(tx, name, [], kwargs)


_function(torch.cov, "cov")
_function(torch.corrcoef, "corrcoef")
