"""Numbers that are calculated from other numbers (`2 ** math.ceil(math.log2(n))`): which of them a
specialised number fixes, too, and which take few values."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from typing import Any

from ....guards.source import CalculatedNumber, Source
from ..base import Value
from .symbolic_number import path_of

# functions that never decrease, alone and beside a positive literal
OF_ONE_NUMBER: frozenset[Callable[..., Any]] = frozenset(
    (float, int, int.bit_length, round, math.ceil, math.exp, math.floor, math.isqrt, math.log,
     math.log10, math.log1p, math.log2, math.sqrt, math.trunc)
)  # fmt: skip
OF_LITERAL_AND_NUMBER: frozenset[Callable[..., Any]] = frozenset(
    (operator.add, operator.lshift, operator.mul, operator.pow)
)
OF_NUMBER_AND_LITERAL: frozenset[Callable[..., Any]] = frozenset(
    (operator.add, operator.floordiv, operator.mul, operator.sub, operator.truediv)
)

LOGARITHMS = frozenset((math.log, math.log10, math.log2, int.bit_length))


def calculations(source: Source) -> Iterator[CalculatedNumber]:
    """The calculations that lead to a number, the last one first."""
    while isinstance(source, CalculatedNumber):
        yield source
        source = source.of


def follows_from(source: Source, other: Source) -> bool:
    """Whether a number is calculated from another one."""
    return any(step.of == other for step in calculations(source))


def determines(source: Source, other: Source, now: int | float) -> bool:
    """Whether the int `other`, which is `now`, is fixed by a number that is calculated from it: the
    calculation never decreases, and gives other numbers for the next ints."""
    if not follows_from(source, other):
        return False
    steps = []
    for step in calculations(source):
        steps.append(step)
        if step.of == other:
            break
    if type(now) is not int or not all(map(never_decreases, steps)):
        return False
    try:
        before, here, after = (calculate(steps, number) for number in (now - 1, now, now + 1))
    except (ArithmeticError, ValueError):
        return False
    return bool(before < here < after)


def never_decreases(step: CalculatedNumber) -> bool:
    literals = (*step.before, *step.after)
    if not literals:
        return step.function in OF_ONE_NUMBER
    functions = OF_LITERAL_AND_NUMBER if step.before else OF_NUMBER_AND_LITERAL
    return len(literals) == 1 and step.function in functions and literals[0] >= 1


def calculate(steps: list[CalculatedNumber], number: int | float) -> Any:
    for step in reversed(steps):
        number = step.read(number)
    return number


def takes_few_values(number: Value) -> bool:
    """Whether a number follows from a logarithm, as the steps of a parallel scan do."""
    path = path_of(number)
    return path is not None and any(step.function in LOGARITHMS for step in calculations(path))
