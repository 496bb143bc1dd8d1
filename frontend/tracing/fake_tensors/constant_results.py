"""Results of operators on numbers of the program that are tensors, as `torch.tensor(0.9) ** step`.

torch's mode keeps the value of such a tensor (`constant`), runs operators on it for real, and makes
a fake of the result. The result is the same here; it takes a fifth of the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

aten = torch.ops.aten
NUMBERS = (bool, int, float, complex)
PURE_ON_NUMBERS = frozenset({
    aten.add.Tensor, aten.sub.Tensor, aten.rsub.Scalar, aten.mul.Tensor, aten.div.Tensor,
    aten.neg.default, aten.reciprocal.default, aten.sqrt.default, aten.pow.Scalar,
    aten.pow.Tensor_Scalar, aten.pow.Tensor_Tensor, aten._to_copy.default,
})  # fmt: skip


def constant_results(
    mode: FakeTensorMode, func: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]
) -> FakeTensor | None:
    """The result of an operator on constants; None where torch's mode has to run it."""
    if func is aten.lift_fresh.default and type(args[0]) is torch.Tensor:
        values: list[Any] = list(args)
    elif func in PURE_ON_NUMBERS and is_on_cpu(kwargs):
        values = [value_of(mode, arg) for arg in args]
        if any(value is None for value in values) or not any(
            isinstance(arg, FakeTensor) for arg in args
        ):
            return None
    else:
        return None
    with torch._C._DisableTorchDispatch():
        result = func(*values, **kwargs)
        if func is aten.lift_fresh.default:
            result = result.clone()
    if result.device.type != "cpu" or not mode.may_turn_const(result):
        return None
    meta = torch.empty_strided(result.shape, result.stride(), dtype=result.dtype, device="meta")
    fake = FakeTensor(mode, meta, result.device, constant=result)
    mode.fake_tensor_converter.add_constant_storage_mapping(fake)
    return fake


def value_of(mode: FakeTensorMode, operand: Any) -> Any:
    """What is known of an operand; None for nothing."""
    if type(operand) is FakeTensor:
        return operand.constant if operand.fake_mode is mode else None
    return operand if type(operand) in NUMBERS else None


def is_on_cpu(options: dict[str, Any]) -> bool:
    device = options.get("device")
    return device is None or torch.device(device).type == "cpu"
