"""Tensors of one int that is known before the graph runs: they are made of a number, or calculated
from such tensors (`torch.div(size, 2, rounding_mode="floor") + 1`)."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from ....backends.graph.mutations import is_written

# operators that take sizes, behind the tensor that they are called on
TAKE_SIZES = frozenset(
    ("as_strided", "expand", "new_empty", "new_ones", "new_zeros", "repeat", "reshape",
     "unflatten", "view")
)  # fmt: skip
ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul,
    "div": operator.floordiv, "divide": operator.floordiv, "floor_divide": operator.floordiv,
    "floordiv": operator.floordiv,
}  # fmt: skip


def known_item(node: Any, fake: Any) -> int | torch.SymInt | None:
    """The number that a tensor, the result of a node, holds, or that an int is; None for others,
    and where it is known only while the graph runs."""
    if isinstance(fake, FakeTensor):
        is_int = fake.dtype is torch.int64 and not fake.dim()
        fake = fake.item_memo if is_int and not is_written(node) else None
    if isinstance(fake, torch.SymInt):
        return fake if fake.node.hint is not None else None
    return fake if type(fake) is int else None


def note_item(
    name: str, pairs: Sequence[tuple[Any, Any]], kwargs: dict[str, Any], result: Any
) -> None:
    """Notes the number that the result of the operator of this name holds, if it is known. pairs:
    the nodes of the arguments, and their fakes."""
    if not isinstance(result, FakeTensor) or result.dtype is not torch.int64 or result.dim():
        return
    numbers = [known_item(node, fake) for node, fake in pairs]
    if any(number is None for number in numbers) or any(result is fake for _, fake in pairs):
        return
    if name == "scalar_tensor" and len(numbers) == 1:
        result.item_memo = numbers[0]
    elif name in ARITHMETIC and len(numbers) == 2 and kwargs.keys() <= {"rounding_mode"}:
        left, right = numbers
        divides = ARITHMETIC[name] is operator.floordiv
        rounds = kwargs.get("rounding_mode", "floor") in ("trunc", "floor")
        if not divides or (rounds and is_at_least(left, 0) and is_at_least(right, 1)):
            result.item_memo = ARITHMETIC[name](left, right)


def is_at_least(number: Any, bound: int) -> bool:
    """Whether a number has this lower bound in any call."""
    if type(number) is int:
        return number >= bound
    return bool(number.node.shape_env.bound_sympy(number.node.expr).lower >= bound)
