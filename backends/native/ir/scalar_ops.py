"""The operations on numbers that loop bodies are made of: their names, result types, and meaning
(as torch functions).

A printer has one line of text for each; a test holds that none is missing.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from ....records import record

SAME, BOOL = "same", "bool"


@record
class ScalarOp:
    """An operation on numbers of one type. `result`: that type, or bool. `cost`: in additions,
    roughly."""

    name: str
    arity: int
    meaning: Callable[..., torch.Tensor]
    result: str = SAME
    cost: int = 1


def _nonzero(b: torch.Tensor) -> torch.Tensor:
    """A divisor; integers have 1 instead of 0, which torch refuses."""
    return b if b.is_floating_point() else torch.where(b == 0, torch.ones_like(b), b)


_OPS = [
    ScalarOp("add", 2, torch.add),
    ScalarOp("sub", 2, torch.sub),
    ScalarOp("mul", 2, torch.mul),
    ScalarOp("neg", 1, torch.neg),
    ScalarOp("abs", 1, torch.abs),
    ScalarOp("div", 2, torch.true_divide, cost=4),
    ScalarOp("truncdiv", 2, lambda a, b: torch.div(a, _nonzero(b), rounding_mode="trunc"), cost=8),
    ScalarOp("floordiv", 2, lambda a, b: torch.div(a, _nonzero(b), rounding_mode="floor"), cost=8),
    ScalarOp("remainder", 2, lambda a, b: torch.remainder(a, _nonzero(b)), cost=8),
    ScalarOp("fmod", 2, lambda a, b: torch.fmod(a, _nonzero(b)), cost=8),
    ScalarOp("maximum", 2, torch.maximum),  # NaN if either side is NaN
    ScalarOp("minimum", 2, torch.minimum),
    ScalarOp("sqrt", 1, torch.sqrt, cost=4),
    ScalarOp("rsqrt", 1, torch.rsqrt, cost=4),
    *(ScalarOp(name, 1, getattr(torch, name), cost=12) for name in (
        "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin",
        "acos", "atan", "sinh", "cosh",
        "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "lgamma",
    )),
    *(ScalarOp(name, 2, getattr(torch, name), cost=16) for name in ("pow", "atan2", "hypot")),
    ScalarOp("copysign", 2, torch.copysign),
    ScalarOp("nextafter", 2, torch.nextafter, cost=8),
    *(ScalarOp(name, 1, getattr(torch, name)) for name in ("floor", "ceil", "trunc", "round")),
    # conversions to half precision that the program asks for, of float
    ScalarOp("round_to_float16", 1, lambda a: a.to(torch.float16).to(a.dtype)),
    ScalarOp("round_to_bfloat16", 1, lambda a: a.to(torch.bfloat16).to(a.dtype)),
    *(ScalarOp(name, 1, getattr(torch, name), BOOL) for name in ("isnan", "isinf", "signbit")),
    *(ScalarOp(name, 2, getattr(torch, name), BOOL) for name in ("eq", "ne", "lt", "le", "gt",
    "ge")),
    ScalarOp("and", 2, torch.logical_and, BOOL),
    ScalarOp("or", 2, torch.logical_or, BOOL),
    ScalarOp("xor", 2, torch.logical_xor, BOOL),
    ScalarOp("not", 1, torch.logical_not, BOOL),
    ScalarOp("bitand", 2, torch.bitwise_and),
    ScalarOp("bitor", 2, torch.bitwise_or),
    ScalarOp("bitxor", 2, torch.bitwise_xor),
    ScalarOp("bitnot", 1, torch.bitwise_not),
    ScalarOp("shl", 2, torch.bitwise_left_shift),
    ScalarOp("shr", 2, torch.bitwise_right_shift),
    ScalarOp("where", 3, torch.where),
]  # fmt: skip

SCALAR_OPS: dict[str, ScalarOp] = {op.name: op for op in _OPS}


# How the values of a row become one number.
REDUCTIONS = ("sum", "prod", "max", "min", "any", "argmax", "argmin")

# How a scattered value is combined with the element that is there: names of SCALAR_OPS; "set" takes
# the value.
SCATTERS: dict[str, str | None] = {
    "sum": "add", "prod": "mul", "max": "maximum", "min": "minimum", "set": None,
}  # fmt: skip
