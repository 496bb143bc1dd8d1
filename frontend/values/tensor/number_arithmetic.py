"""Arithmetic of numbers that vary: the symbol of a result, or the number of this call where there
is no such symbol."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable
from typing import Any

import torch

from ....guards.guard import Kind
from ....guards.source import Source
from ..base import Value
from ..constant import Constant, fold, wrap_literal
from ..context import TraceContext
from ..operation import Operation, UnaryOperation
from ..registry import wraps
from .number_functions import ALLOWED, EXACT, OPAQUE, ROUNDED, SYMBOLIC, is_not_negative
from .symbolic_number import (
    CLASSES,
    MOST_BITS,
    Symbol,
    SymbolicNumber,
    can_be_symbol,
    is_number,
    number_now,
    path_of_call,
    python_or_symbol,
)

SHIFTS = {operator.lshift: operator.mul, operator.rshift: operator.floordiv}


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


def calculate_operation(tx: TraceContext, op: Operation, left: Value, right: Value) -> Value | None:
    """An operator of numbers, at least one of them symbolic; None for others."""
    if not (isinstance(left, SymbolicNumber) or isinstance(right, SymbolicNumber)):
        return None
    function, right = as_arithmetic(op.function, left, right)
    return calculate(tx, function, left, right, written=op.written)


def calculate_unary(tx: TraceContext, op: UnaryOperation, value: Value) -> Value | None:
    """-value, +value or ~value of a symbolic number; None for others."""
    return calculate(tx, op.function, value) if isinstance(value, SymbolicNumber) else None


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


@wraps(int, float)
def wrap_number(tx: TraceContext, obj: int | float, source: Source | None) -> Value:
    if source is not None and tx.symbols.is_symbolic(source, obj):
        tx.guards.add(source, Kind.TYPE, type(obj))
        return tx.symbols.input(obj, source)
    return wrap_literal(tx, obj, source)


@wraps(torch.SymInt, torch.SymFloat, torch.SymBool)
def wrap_symbol(tx: TraceContext, obj: Symbol, source: Source | None) -> Value:
    return tx.symbols.shapes.number(obj)
