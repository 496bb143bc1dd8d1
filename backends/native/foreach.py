"""Decompositions of torch's operators on lists of tensors, `_foreach_add` and the like, of which
optimizers consist: one operator a tensor. These are fused into one kernel a tensor, which reads and
writes it once; torch's own kernels do that in each operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

aten = torch.ops.aten

# Those for which the operator on one tensor takes the same arguments.
ALIKE = (
    "abs", "acos", "add", "asin", "atan", "ceil", "clamp_max", "clamp_min", "cos", "cosh", "div",
    "erf", "erfc", "exp", "expm1", "floor", "frac", "lerp", "log", "log10", "log1p", "log2", "mul",
    "neg", "pow", "reciprocal", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "sub", "tan",
    "tanh", "trunc",
)  # fmt: skip
# Those whose last argument is `value` in the operator on one tensor.
WITH_VALUE = ("addcdiv", "addcmul")


def decompositions_of_lists() -> dict[Any, Callable[..., Any]]:
    """By operator. Not of those that take the numbers of all tensors as one tensor."""
    made: dict[Any, Callable[..., Any]] = {}
    for name in (*ALIKE, *WITH_VALUE):
        for overload, operator in overloads(f"_foreach_{name}"):
            if name not in WITH_VALUE or overload != "Tensor":
                made[operator] = partial(decompose, getattr(aten, name), name in WITH_VALUE)
    return made


def overloads(name: str) -> Iterator[tuple[str, Any]]:
    """The overloads of an operator that this torch has, but for those that write into `out`."""
    packet = getattr(aten, name, None)
    for overload in packet.overloads() if packet is not None else ():
        if not overload.endswith("out"):
            yield overload, getattr(packet, overload)


def decompose(
    of_one: Callable[..., Any], with_value: bool, *args: Any, **named: Any
) -> list[torch.Tensor]:
    """The results for the tensors of the lists, one by one. with_value: whether the argument after
    three tensors is named so in the operator on one tensor."""
    count = len(next(arg for arg in args if isinstance(arg, list | tuple)))
    columns = [arg if isinstance(arg, list | tuple) else [arg] * count for arg in args]
    if with_value:
        tensors, value = columns[:3], columns[3:] or [[named.pop("value", 1)] * count]
        return [of_one(*own, value=one) for *own, one in zip(*tensors, *value, strict=True)]
    return [of_one(*own, **named) for own in zip(*columns, strict=True)]
