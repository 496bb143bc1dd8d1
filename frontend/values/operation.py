"""Operation: the function, the special methods and the sign of an operator."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from ...records import record


@record
class Operation:
    """A binary operator or a comparison. `sign` is as the program has it ("+", "+=", "<"), `symbol`
    the same without the "=" of an operator in place."""

    sign: str
    symbol: str
    function: Callable[..., Any]  # of the symbol: operator.add
    name: str  # of the left operand's method
    reflected: str  # of the right operand's method
    written: Callable[..., Any]  # of the sign: operator.iadd
    in_place: str | None = None  # the method of an operator in place

    @property
    def is_equality(self) -> bool:
        return self.sign in ("==", "!=")

    def answer(self, equal: bool) -> bool:
        """The result of `==` or `!=` for operands that are equal, or are not."""
        return equal == (self.sign == "==")


@record
class UnaryOperation:
    """`-x`, `+x` or `~x`: its function and the name of its special method."""

    function: Callable[..., Any]
    name: str


NAMES = {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow",
    "@": "matmul", "<<": "lshift", ">>": "rshift", "&": "and", "|": "or", "^": "xor",
}  # fmt: skip


def _binary(symbol: str, name: str) -> Operation:
    function = getattr(operator, f"__{name}__")
    return Operation(symbol, symbol, function, f"__{name}__", f"__r{name}__", function)


def _in_place(symbol: str, name: str) -> Operation:
    function, written = getattr(operator, f"__{name}__"), getattr(operator, f"__i{name}__")
    method, reflected, in_place = f"__{name}__", f"__r{name}__", f"__i{name}__"
    return Operation(f"{symbol}=", symbol, function, method, reflected, written, in_place)


def _comparison(sign: str, name: str, reflected: str) -> Operation:
    function = getattr(operator, f"__{name}__")
    return Operation(sign, sign, function, f"__{name}__", f"__{reflected}__", function)


IN_PLACE = {f"{symbol}=": _in_place(symbol, name) for symbol, name in NAMES.items()}
BINARY = {symbol: _binary(symbol, name) for symbol, name in NAMES.items()} | IN_PLACE
COMPARE = {
    "<": _comparison("<", "lt", "gt"),
    "<=": _comparison("<=", "le", "ge"),
    "==": _comparison("==", "eq", "eq"),
    "!=": _comparison("!=", "ne", "ne"),
    ">": _comparison(">", "gt", "lt"),
    ">=": _comparison(">=", "ge", "le"),
}
UNARY = {
    "-": UnaryOperation(operator.neg, "__neg__"),
    "+": UnaryOperation(operator.pos, "__pos__"),
    "~": UnaryOperation(operator.invert, "__invert__"),
}
