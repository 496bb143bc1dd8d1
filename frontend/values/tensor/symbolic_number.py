"""Numbers that vary between calls: torch's symbol for the number, and how the program computed it.

Where Python needs the number itself (a key, the length of a loop), it is specialised: compiled code
is then for that number only.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
import torch.fx

from ....guards.guard import Kind
from ....guards.source import CalculatedNumber, Source, safe_repr
from ..base import Value
from ..constant import Constant, VaryingLiteral, fold, wrap_literal
from ..context import TraceContext
from ..emitter import Emitter
from ..operation import Operation, UnaryOperation
from ..registry import wraps

# how a break ends whose statement needs the value of a number that has taken many
VALUE_NEEDED = "whose value Python needs"
MOST_BITS = 63  # of an int that torch's symbols stand for
Symbol = torch.SymInt | torch.SymFloat | torch.SymBool
CLASSES: dict[type, type] = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}


class Owner(Protocol):
    """The questions that a symbolic number asks about its symbol (tracing/sizes/shapes.py answers
    them)."""

    def decide(self, sym: Symbol | bool) -> bool:
        """bool(sym) in this call, guarded."""

    def depends_on_values(self, sym: Symbol) -> bool:
        """Whether only the values of tensors tell the number."""

    def expect(self, sym: Symbol | bool, truth: bool) -> bool:
        """bool(sym), guarded. Where only values tell, it is assumed to be `truth`, which each call
        checks."""

    def calculation(self, value: SymbolicNumber) -> tuple[Callable[..., Any], list[Value]]:
        """The calculation of a number that follows from sizes: a function and its operands."""

    def specialise(self, sym: Symbol) -> Any:
        """The number in this call, guarded."""

    def rely_on_sign(self, sym: Symbol) -> None:
        """Guards that sizes in `sym` are not zero, which may have answered a question."""


class SymbolicNumber(VaryingLiteral):
    """An int, float or bool. It has a source (the program was given it), or is
    `function(*operands)` of other numbers, or follows from the sizes of tensors by its symbol's
    expression."""

    __slots__ = ("owner", "sym", "function", "operands", "node")

    def __init__(
        self,
        owner: Owner,
        sym: Symbol,
        source: Source | None = None,
        function: Callable[..., Any] | None = None,
        operands: tuple[Value, ...] = (),
        node: torch.fx.Node | None = None,
    ) -> None:
        super().__init__(source)
        self.owner = owner
        self.sym = sym
        self.function = function
        self.operands = operands
        self.node = node

    def python_type(self) -> type:
        return CLASSES[type(self.sym)]

    def constant(self) -> Any:
        return self.owner.specialise(self.sym)

    def graph_argument(self, tx: TraceContext) -> tuple[Any, Any]:
        is_bool = self.python_type() is bool  # operators take no symbols for bools
        if is_bool or self.is_known_by_now():
            return super().graph_argument(tx)
        return tx.graph.number_node(self), self.sym

    def is_known_by_now(self) -> bool:
        """Whether it follows from sizes all of which a guard has fixed since it was computed."""
        computed = self.source is None and self.function is None and self.node is None
        return computed and self.sym.node.expr.is_number

    def describe(self) -> str:
        where = f" '{self.source.name}'" if self.source is not None else ""
        return f"a symbolic {self.python_type().__name__}{where} ({self.sym})"

    def truth(self, tx: TraceContext) -> bool:
        self.owner.rely_on_sign(self.sym)
        return self.owner.decide(self.sym if isinstance(self.sym, torch.SymBool) else self.sym != 0)

    def depends_on_values(self) -> bool:
        """Whether the number is known only while the graph runs."""
        return self.owner.depends_on_values(self.sym)

    def expect(self, truth: bool) -> bool:
        """The truth of a condition that almost always holds, or, if `truth` is False, almost never
        does: it is checked when the graph has run, where only values tell."""
        self.owner.rely_on_sign(self.sym)
        return self.owner.expect(self.sym, truth)

    def is_same(self, other: Value) -> bool:
        if self is other or other.python_type() is not self.python_type():
            return self is other
        return isinstance(other, Constant | SymbolicNumber) and other.constant() is self.constant()

    def reconstruct(self, emit: Emitter) -> None:
        """Emits the program's own arithmetic where there is one, which gives Python's number
        exactly."""
        if self.function is not None:
            emit.call(self.function, self.operands)
        elif self.node is not None and not self.node._erased:
            emit.push_output(self, self.node)
        else:
            function, operands = self.owner.calculation(self)
            emit.call(function, operands)

    def apply_unary(self, tx: TraceContext, op: UnaryOperation) -> Value:
        return calculate(tx, op.function, self) or self


def is_number(value: Value) -> bool:
    return isinstance(value, SymbolicNumber) or (
        isinstance(value, Constant) and type(value.object) in (int, float, bool)
    )


def calculate(
    tx: TraceContext,
    function: Callable[..., Any],
    *operands: Value,
    written: Callable[..., Any] | None = None,
) -> Value | None:
    """Calculates a pure function of numbers, at least one of them symbolic; None if an operand is
    no number. A function without a symbolic form is specialised. `written`: the operator in the
    program, for error messages."""
    if not all(map(is_number, operands)):
        return None
    if function is math.pow and len(operands) == 2 and is_positive_literal(operands[0]):
        # math.pow() of a float is `**`: both call C's pow()
        base, exponent = operands
        function, written = operator.pow, written or math.pow
        operands = (Constant(float(base.constant())), exponent)
    allowed = ALLOWED.get(function)
    if any(operand.python_type() is bool for operand in operands):
        allowed = None
    elif allowed is None or not allowed(tx, *operands):
        allowed = None
        found = calculate_at_the_call(tx, function, *operands)
        found = found or rounded_quotient(tx, function, operands[0])
        if found is not None:
            return found
    if allowed is None:
        return fold(tx, written or function, list(operands), {})
    result = SYMBOLIC.get(function, function)(*map(python_or_symbol, operands))
    if function in (max, min) or not (type(result) in CLASSES and result.node.expr.free_symbols):
        for operand in operands:
            if isinstance(operand, SymbolicNumber):
                operand.owner.rely_on_sign(operand.sym)
    return tx.symbols.shapes.number(result, function, operands)


def is_positive_literal(value: Value) -> bool:
    """Whether this is a positive number of the program's text that a float can be."""
    return isinstance(value, Constant) and 0 < value.object <= sys.float_info.max


def calculate_at_the_call(
    tx: TraceContext, function: Callable[..., Any], *operands: Value
) -> Value | None:
    """A function without a symbolic form, of literals and one number that follows from a number
    that the program was given: a symbol of its own, whose number each call calculates. None for
    other functions and numbers."""
    path = path_of_call(function, operands) if function in OPAQUE else None
    if path is None or not OPAQUE[function](tx, *operands):
        return None
    now = function(*map(number_now, operands))
    return tx.symbols.input(now, path) if can_be_symbol(now) else None


def rounded_quotient(
    tx: TraceContext, function: Callable[..., Any], quotient: Value
) -> Value | None:
    """`math.ceil(n / 8)` and the like as a floor division, which torch's symbols have; None for
    other numbers. The quotient of ints that a float holds exactly is a whole number only if the
    division has no remainder."""
    operands = int_operands_of_division(tx, quotient) if function in ROUNDED else None
    if operands is None:
        return None
    left, right = operands
    rounds_up = function is math.ceil
    if function in (math.trunc, int):
        rounds_up = not is_not_negative(quotient)
    if not rounds_up:
        return calculate(tx, operator.floordiv, left, right)
    negated = calculate_or_fold(tx, operator.neg, left)
    return calculate(tx, operator.neg, calculate_or_fold(tx, operator.floordiv, negated, right))


def int_operands_of_division(tx: TraceContext, quotient: Value) -> tuple[Value, ...] | None:
    """The ints that were divided to make a number, if a float holds each exactly; None for other
    numbers."""
    if not isinstance(quotient, SymbolicNumber) or quotient.function is not operator.truediv:
        return None
    operands = quotient.operands
    if any(one.python_type() is not int for one in operands):
        return None
    varying = [one for one in operands if isinstance(one, SymbolicNumber)]
    return operands if all(EXACT(tx, one) for one in varying) else None


def calculate_or_fold(tx: TraceContext, function: Callable[..., Any], *operands: Value) -> Value:
    """A function of numbers that may all be literals."""
    if any(isinstance(one, SymbolicNumber) for one in operands):
        found = calculate(tx, function, *operands)
        assert found is not None
        return found
    return fold(tx, function, list(operands), {})


def number_now(value: Value) -> Any:
    """The number in this call, which is not relied on."""
    if isinstance(value, SymbolicNumber):
        return CLASSES[type(value.sym)](value.sym.node.hint)
    return value.constant()


def path_of(value: Value) -> Source | None:
    """The path to a number that the program was given, or that it calculates from one such number
    and literals; None for others."""
    if value.source is not None or not isinstance(value, SymbolicNumber):
        return value.source
    return None if value.function is None else path_of_call(value.function, value.operands)


def path_of_call(function: Callable[..., Any], operands: Sequence[Value]) -> Source | None:
    """The path to what a function gives for literals and one number that has a path."""
    varying = [index for index, one in enumerate(operands) if not isinstance(one, Constant)]
    if len(varying) != 1:
        return None
    path = path_of(operands[varying[0]])
    literals = [one.object if isinstance(one, Constant) else None for one in operands]
    before, after = tuple(literals[: varying[0]]), tuple(literals[varying[0] + 1 :])
    return path and CalculatedNumber(path, function, before, after, safe_repr((before, after)))


def calculate_operation(tx: TraceContext, op: Operation, left: Value, right: Value) -> Value | None:
    """An operator of numbers, at least one of them symbolic; None for others."""
    if not (isinstance(left, SymbolicNumber) or isinstance(right, SymbolicNumber)):
        return None
    function, right = as_arithmetic(op.function, left, right)
    return calculate(tx, function, left, right, written=op.written)


def as_arithmetic(
    function: Callable[..., Any], left: Value, right: Value
) -> tuple[Callable[..., Any], Value]:
    """A shift by a literal, or the lowest bits of an int, as the arithmetic that torch's symbols
    have; the operator and its right operand themselves for others."""
    literal = right.object if isinstance(right, Constant) else None
    if type(literal) is not int or left.python_type() is not int or not 0 <= literal < MOST_BITS:
        return function, right
    if function is operator.and_ and literal & (literal + 1) == 0:
        return operator.mod, Constant(literal + 1)
    if function in SHIFTS:
        return SHIFTS[function], Constant(1 << literal)
    return function, right


def can_be_symbol(number: int | float) -> bool:
    """Whether a symbol can stand for a number: torch's ints have 64 bits, sympy's floats are finite
    and have one zero."""
    if type(number) is int:
        return number.bit_length() <= MOST_BITS
    return math.isfinite(number) and (number != 0 or math.copysign(1.0, number) > 0)


def python_or_symbol(value: Value) -> Any:
    """A number as Python's, or as the symbol of one that varies."""
    return value.sym if isinstance(value, SymbolicNumber) else value.constant()


# When the symbol of a result says what Python's number would be, and making the number cannot
# raise.


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


SHIFTS = {operator.lshift: operator.mul, operator.rshift: operator.floordiv}


@wraps(int, float)
def wrap_number(tx: TraceContext, obj: int | float, source: Source | None) -> Value:
    if source is not None and tx.symbols.is_symbolic(source, obj):
        tx.guards.add(source, Kind.TYPE, type(obj))
        return tx.symbols.input(obj, source)
    return wrap_literal(tx, obj, source)


@wraps(torch.SymInt, torch.SymFloat, torch.SymBool)
def wrap_symbol(tx: TraceContext, obj: Symbol, source: Source | None) -> Value:
    return tx.symbols.shapes.number(obj)
