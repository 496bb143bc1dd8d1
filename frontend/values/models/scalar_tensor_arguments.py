"""Operators of torch with a number argument that eager takes from a tensor without dimensions. They
are captured with the tensor instead."""

from __future__ import annotations

import torch
from torch._C._functorch import is_functorch_wrapped_tensor

from ..base import Value
from ..constant import Constant
from ..context import TraceContext
from ..registry import method, models
from ..tensor.tensor import TensorValue
from .arithmetic_of_numbers import with_a_tensor

# what kernels calculate with is as precise as their results
PRECISE = (torch.float32, torch.float64)


def factor(
    tx: TraceContext, self: TensorValue, other: Value, number: Value | None
) -> TensorValue | None:
    """A copy of `number`, in the precision of the kernel for two tensors; None where the operator
    needs its value."""
    parts = (self, other, number)
    if (
        not isinstance(number, TensorValue)
        or number.fake.dim()
        or not isinstance(other, TensorValue)
    ):
        return None
    fakes = [part.fake for part in parts if isinstance(part, TensorValue)]
    if any(
        part.cls is not torch.Tensor and part.cls is not torch.nn.Parameter
        for part in parts
        if isinstance(part, TensorValue)
    ):
        return None
    if any(
        fake.layout != torch.strided
        or fake.device != self.fake.device
        or is_functorch_wrapped_tensor(fake)
        for fake in fakes
    ):
        return None
    differentiated = number.fake.requires_grad or (
        torch.is_grad_enabled() and any(fake.requires_grad for fake in fakes)
    )
    if (
        differentiated
        or self.fake.dtype not in PRECISE
        or other.fake.dtype != self.fake.dtype
        or number.fake.dtype not in PRECISE
    ):
        return None
    # it may share memory with what is written to
    named: dict[str, Value] = {"copy": Constant(True)}
    converted = tx.graph.call("call_method", "to", [number, Constant(self.fake.dtype)], named)
    assert isinstance(converted, TensorValue)
    return converted


def add_scaled(name: str, sign: int) -> None:
    """self + alpha * other, or self - alpha * other. The kernels of both round once, as that of
    addcmul does."""
    in_place = name.endswith("_")

    @method(torch.Tensor, name)
    def add_scaled_tensor(
        tx: TraceContext, self: TensorValue, other: Value, *, alpha: Value | None = None
    ) -> Value:
        number = factor(tx, self, other, alpha)
        if number is None:
            return tx.graph.call(
                "call_method", name, [self, other], {} if alpha is None else {"alpha": alpha}
            )
        return tx.graph.call(
            "call_method",
            "addcmul_" if in_place else "addcmul",
            [self, other, number],
            {"value": Constant(sign)},
        )

    if in_place:
        return
    function = getattr(torch, name)

    @models(function)
    def call_function(tx: TraceContext, *args: Value, **kwargs: Value) -> Value:
        if len(args) == 2 and kwargs.keys() == {"alpha"} and isinstance(args[0], TensorValue):
            return add_scaled_tensor(tx, *args, **kwargs)
        return tx.graph.function(function, *with_a_tensor(tx, args), **kwargs)


for _name, _sign in (("add", 1), ("add_", 1), ("sub", -1), ("sub_", -1)):
    add_scaled(_name, _sign)


@models(torch.full_like)
def full_like(tx: TraceContext, input: Value, fill_value: Value, **kwargs: Value) -> Value:
    """full() with a number from a tensor: the new tensor is filled by a copy."""
    fakes = [value.fake for value in (input, fill_value) if isinstance(value, TensorValue)]
    if len(fakes) < 2 or not kwargs.keys() <= {"memory_format"} or not can_fill(*fakes):
        return tx.graph.function(torch.full_like, input, fill_value, **kwargs)
    made = tx.graph.function(torch.empty_like, input, **kwargs)
    return tx.graph.call("call_method", "copy_", [made, fill_value], {})


def can_fill(like: torch.Tensor, number: torch.Tensor) -> bool:
    numbers = (
        not number.dim()
        and not number.requires_grad
        and number.dtype in PRECISE
        and like.dtype in PRECISE
    )
    return (
        numbers
        and like.layout == torch.strided
        and not is_functorch_wrapped_tensor(number)
        and not is_functorch_wrapped_tensor(like)
    )
