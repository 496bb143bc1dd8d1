"""SHAPE: a relation between sizes, as the text that torch's ShapeEnv prints."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from ...factory_call import record_factory
from ..encoded import Encoded
from ..guard import Guard, Kind, ShapeExpr
from ..relation import stack_program
from ..source import Source
from .registry import GuardKind, guard_kind

# The names that torch's printers of symbolic shapes use beside Python's operators.
NAMES: dict[str, Any] = {
    "math": math,
    # of numbers, which Python's own functions do as well
    "torch": SimpleNamespace(_sym_sqrt=math.sqrt, sym_float=float),
    "Min": min,
    "Max": max,
    "Abs": abs,
    "Mod": lambda a, b: a % b,
    "PythonMod": lambda a, b: a % b,
    "FloorDiv": lambda a, b: a // b,
    "CleanDiv": lambda a, b: a // b,
    "CeilDiv": lambda a, b: -(-a // b),
    "ModularIndexing": lambda a, b, c: a // b % c,
    "IntTrueDiv": lambda a, b: a / b,
    "FloatTrueDiv": lambda a, b: a / b,
    "PowByNatural": pow,
    "FloatPow": pow,
    "Pow": pow,
    "ToFloat": float,
    "TruncToInt": math.trunc,
    "TruncToFloat": lambda a: float(math.trunc(a)),
    "FloorToInt": math.floor,
    "CeilToInt": math.ceil,
    "RoundToInt": round,
    "RoundDecimal": round,
    "floor": math.floor,
    "ceiling": math.ceil,
    "sqrt": math.sqrt,
    "Identity": lambda a: a,
    "Where": lambda condition, a, b: a if condition else b,
    "Eq": lambda a, b: a == b,
    "Ne": lambda a, b: a != b,
    "Lt": lambda a, b: a < b,
    "Le": lambda a, b: a <= b,
    "Gt": lambda a, b: a > b,
    "Ge": lambda a, b: a >= b,
    "And": lambda *a: all(a),
    "Or": lambda *a: any(a),
    "Not": lambda a: not a,
    "cast_symbool_to_symint_guardless": int,
}


# that relations are asked of; nothing of the user's runs in their arithmetic
NUMBERS = (int, float, bool)

native_form = lru_cache(maxsize=4096)(stack_program)


def make_relation(text: str, symbols: tuple[str, ...]) -> Callable[..., Any]:
    """The relation as a function of its symbols, positional."""
    code = compile(f"lambda {', '.join(symbols)}: ({text})", "<framejit relation>", "eval")
    made = eval(code, dict(NAMES))
    return record_factory(made, make_relation, text, symbols)


compile_relation = lru_cache(maxsize=4096)(make_relation)


def relation(expected: ShapeExpr) -> Callable[..., Any]:
    return compile_relation(expected.text, names_of(expected))


def names_of(expected: ShapeExpr) -> tuple[str, ...]:
    return tuple(name for name, _ in expected.symbols)


@guard_kind(Kind.SHAPE)
class Shape(GuardKind):
    """A relation between sizes and numbers that vary."""

    cost = 30

    def subjects(self, guard: Guard) -> tuple[Source, ...]:
        return tuple(source for _, source in guard.expected.symbols)

    def holds(self, expected: ShapeExpr, *subjects: int) -> bool:
        if native_form(expected.text, names_of(expected)) is not None and not all(
            type(subject) in NUMBERS for subject in subjects
        ):
            return False
        return bool(relation(expected)(*subjects))

    def encode(self, guard: Guard) -> Encoded:
        code = native_form(guard.expected.text, names_of(guard.expected))
        if code is not None:
            return Encoded("RELATION", code)
        return Encoded("SHAPE", relation(guard.expected), runs_python=True)

    def expression(self, guard: Guard) -> str:
        names = ", ".join(f"{name} := {source.name}" for name, source in guard.expected.symbols)
        return f"shape({guard.expected.text!r}, {names})" if names else guard.expected.text

    def old(self, guard: Guard) -> str:
        return "true"

    def difference(self, guard: Guard, *subjects: int) -> tuple[str, str, str]:
        values = ", ".join(
            f"{name} = {source.name} = {value}"
            for (name, source), value in zip(guard.expected.symbols, subjects, strict=True)
        )
        return guard.expected.text, "true", f"false for {values}"
