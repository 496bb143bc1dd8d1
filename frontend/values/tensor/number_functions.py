"""Functions of numbers that vary: for which numbers a function has a symbol, and cannot raise.

In: the operands. Out: two tables, ALLOWED and OPAQUE, which number_arithmetic.py reads.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable
from typing import Any

import torch

from ..base import Value
from ..constant import Constant
from ..context import TraceContext
from .symbolic_number import MOST_BITS, SymbolicNumber


def always(tx: TraceContext, *operands: Value) -> bool:
    return True


def ints_by_nonzero(tx: TraceContext, left: Value, right: Value) -> bool:
    return left.python_type() is right.python_type() is int and right.truth(tx)


def by_nonzero(tx: TraceContext, left: Value, right: Value) -> bool:
    return right.truth(tx)


def power_can_be_symbolic(tx: TraceContext, base: Value, exponent: Value) -> bool:
    """Whether a power can be symbolic: a small natural exponent of an int; another small literal
    exponent of a positive int; a base and an exponent, neither negative and one of them in [0, 1];
    or a base of at least 1 with an exponent in [-1, 0)."""
    if base.python_type() is int:
        if not isinstance(exponent, Constant) or not -8 <= exponent.object <= 8:
            return False
        is_natural = type(exponent.object) is int and exponent.object >= 0
        return is_natural or is_at_least_1(base)
    if isinstance(exponent, Constant) and -1 <= exponent.object < 0:
        return is_at_least_1(base)
    unit = (isinstance(base, Constant) and 0 < base.object <= 1) or (
        isinstance(exponent, Constant) and 0 <= exponent.object <= 1
    )
    return unit and is_not_negative(base) and is_not_negative(exponent)


def is_at_least_1(value: Value) -> bool:
    number: Any = getattr(value, "sym", None)
    return isinstance(value, SymbolicNumber) and value.owner.decide(number >= 1)


def is_not_negative(value: Value) -> bool:
    if isinstance(value, SymbolicNumber):
        number: Any = value.sym
        value.owner.rely_on_sign(number)
        return value.owner.decide(number >= 0)
    return bool(value.constant() >= 0)


def within(low: float, high: float) -> Callable[..., bool]:
    """Returns a test whether a function's argument is in its domain; outside of it the number is
    specialised."""

    def is_within(tx: TraceContext, value: Value) -> bool:
        assert isinstance(value, SymbolicNumber)
        number: Any = value.sym
        return value.owner.decide(number >= low) and value.owner.decide(number <= high)

    return is_within


def is_int(tx: TraceContext, value: Value) -> bool:
    return value.python_type() is int


def identity(number: Any) -> Any:
    return number


FINITE = within(-sys.float_info.max, sys.float_info.max)
# Functions of math's that cannot raise within some bounds, and torch's form of them, which takes
# symbols too.
FUNCTIONS: dict[Callable[[float], float], tuple[Callable[..., bool], Callable[..., Any]]] = {
    math.sqrt: (within(0.0, sys.float_info.max), torch._sym_sqrt),  # type: ignore[attr-defined]
    math.cos: (FINITE, torch._sym_cos),  # type: ignore[attr-defined]
    math.sin: (FINITE, torch._sym_sin),  # type: ignore[attr-defined]
    math.tan: (FINITE, torch._sym_tan),  # type: ignore[attr-defined]
    math.tanh: (FINITE, torch._sym_tanh),  # type: ignore[attr-defined]
    math.atan: (FINITE, torch._sym_atan),  # type: ignore[attr-defined]
    math.cosh: (within(-700.0, 700.0), torch._sym_cosh),  # type: ignore[attr-defined]
    math.sinh: (within(-700.0, 700.0), torch._sym_sinh),  # type: ignore[attr-defined]
    math.acos: (within(-1.0, 1.0), torch._sym_acos),  # type: ignore[attr-defined]
    math.asin: (within(-1.0, 1.0), torch._sym_asin),  # type: ignore[attr-defined]
    math.log2: (
        within(sys.float_info.min, sys.float_info.max),
        torch._sym_log2,  # type: ignore[attr-defined]
    ),
}
ALLOWED: dict[Callable[..., Any], Callable[..., bool]] = {
    **dict.fromkeys(
        (operator.add, operator.sub, operator.mul, operator.neg, operator.pos, operator.abs, abs),
        always,
    ),
    **dict.fromkeys(
        (operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge), always
    ),
    **dict.fromkeys((torch.sym_max, torch.sym_min), always),
    operator.floordiv: ints_by_nonzero,
    operator.mod: ints_by_nonzero,
    operator.truediv: by_nonzero,
    operator.pow: power_can_be_symbolic,
    float: always,
    int: is_int,
    **{function: allowed for function, (allowed, _) in FUNCTIONS.items()},
}
# What takes symbols in a function's place, in the capture and in a graph that a compiler runs on
# them.
SYMBOLIC: dict[Callable[..., Any], Callable[..., Any]] = {
    float: torch.sym_float,
    int: identity,
    torch.Tensor.size: torch.ops.aten.sym_size.int,
    **{function: form for function, (_, form) in FUNCTIONS.items()},
}


def logarithm_can_be_symbolic(tx: TraceContext, number: Value, base: Value | None = None) -> bool:
    """Whether a logarithm can be calculated: of a positive number, to the usual base or a literal
    one."""
    known = base is None or (isinstance(base, Constant) and base.object > 0 and base.object != 1)
    return known and isinstance(number, SymbolicNumber) and POSITIVE(tx, number)


def power_of_a_literal(tx: TraceContext, base: Value, exponent: Value) -> bool:
    """Whether a power of a positive literal, with an exponent that varies, is a float that is
    neither too large nor nothing, or an int of 64 bits."""
    if not (isinstance(base, Constant) and isinstance(exponent, SymbolicNumber)):
        return False
    if type(base.object) is exponent.python_type() is int and base.object > 1:
        return within(0, int(MOST_BITS / math.log2(base.object)) - 1)(tx, exponent)
    is_float = float in (base.python_type(), exponent.python_type())
    if not is_float or base.object <= 0 or base.object == 1:
        return False
    limit = abs(700.0 / math.log(base.object))
    return within(-limit, limit)(tx, exponent)


def can_round(tx: TraceContext, number: Value, digits: Value | None = None) -> bool:
    """Whether round() gives an int of 64 bits; or a float: with digits after the point it is never
    too large for one."""
    if digits is None:
        return number.python_type() is float and AS_INT(tx, number)
    fixed = isinstance(digits, Constant) and type(digits.object) is int and digits.object >= 0
    return fixed and number.python_type() is float and FINITE(tx, number)


def can_be_shifted(tx: TraceContext, number: Value, by: Value) -> bool:
    """Whether a literal shifted by a number of bits that varies is an int of 64 bits."""
    known = isinstance(number, Constant) and type(number.object) is int
    return (
        known
        and by.python_type() is int
        and within(0, MOST_BITS - number.constant().bit_length())(tx, by)
    )


def are_ints(tx: TraceContext, *operands: Value) -> bool:
    return all(operand.python_type() is int for operand in operands)


def is_natural(tx: TraceContext, number: Value) -> bool:
    return number.python_type() is int and within(0, 2**62)(tx, number)


def small_power(tx: TraceContext, base: Value, exponent: Value) -> bool:
    """Whether a power is a float that is neither too large nor nothing: a literal exponent of a
    positive number."""
    known = isinstance(exponent, Constant) and -8 <= exponent.object <= 8
    return known and within(1e-30, 1e30)(tx, base)


def power_can_be_calculated(tx: TraceContext, base: Value, exponent: Value) -> bool:
    """Whether a power is a number that cannot overflow: of a positive literal, or a small literal
    exponent of a float, which is positive unless the exponent is natural."""
    if isinstance(base, Constant) or base.python_type() is not float:
        return power_of_a_literal(tx, base, exponent)
    literal = exponent.object if isinstance(exponent, Constant) else None
    if type(literal) is int and 0 <= literal <= 8:
        return within(-1e30, 1e30)(tx, base)
    return small_power(tx, base, exponent)


def divided_by_literal(tx: TraceContext, number: Value, by: Value) -> bool:
    return isinstance(by, Constant) and by.object != 0 and FINITE(tx, number)


def beside_literals(tx: TraceContext, *operands: Value) -> bool:
    """Whether numbers are small enough to be squared and added."""
    small = within(-1e150, 1e150)
    return all(
        abs(one.object) < 1e150 if isinstance(one, Constant) else small(tx, one) for one in operands
    )


EXACT = within(-(2**53), 2**53)  # ints that a float holds exactly
POSITIVE = within(sys.float_info.min, sys.float_info.max)
AS_INT = within(-(2.0**62), 2.0**62)
ROUNDED = (math.floor, math.ceil, math.trunc, int)
# Functions that torch's symbols do not have, or not for these numbers, and where they cannot raise.
OPAQUE: dict[Callable[..., Any], Callable[..., bool]] = {
    math.log: logarithm_can_be_symbolic,
    math.log10: POSITIVE,
    math.log1p: within(0.0, sys.float_info.max),
    math.exp: within(-sys.float_info.max, 700.0),
    math.expm1: within(-sys.float_info.max, 700.0),
    **dict.fromkeys(ROUNDED, AS_INT),
    **dict.fromkeys((math.erf, math.radians, math.degrees), within(-1e300, 1e300)),
    operator.pow: power_can_be_calculated,
    round: can_round,
    **dict.fromkeys(
        (operator.and_, operator.or_, operator.xor, operator.invert, math.gcd, int.bit_length),
        are_ints,
    ),
    operator.lshift: can_be_shifted,
    math.isqrt: is_natural,
    math.pow: small_power,
    math.fmod: divided_by_literal,
    math.hypot: beside_literals,
}
