"""A relation between numbers as a small stack program, which C runs; None for one that only Python
can evaluate. In: Python text over symbols, as torch prints it. Out: (operation, argument) pairs;
native/relation.c has the same table. Only ints and truth values: relations with floats, or with an
int as a truth value, are evaluated in Python."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

Code = list[tuple[str, int]]

BINARY: dict[type, str] = {
    ast.Add: "ADD",
    ast.Sub: "SUBTRACT",
    ast.Mult: "MULTIPLY",
    ast.FloorDiv: "FLOORDIV",
    ast.Mod: "MODULO",
}
COMPARISONS: dict[type, str] = {
    ast.Eq: "EQ", ast.NotEq: "NE", ast.Lt: "LT", ast.LtE: "LE", ast.Gt: "GT", ast.GtE: "GE",
}  # fmt: skip
# Functions of two arguments that are one operation; the names are those of kinds/shape.py.
CALLS = {
    "Min": "MIN", "Max": "MAX", "Mod": "MODULO", "PythonMod": "MODULO", "FloorDiv": "FLOORDIV",
    "CleanDiv": "FLOORDIV", "Eq": "EQ", "Ne": "NE", "Lt": "LT", "Le": "LE", "Gt": "GT", "Ge": "GE",
}  # fmt: skip
OPERATIONS = (
    "SYMBOL", "CONSTANT", "ADD", "SUBTRACT", "MULTIPLY", "FLOORDIV", "MODULO", "MIN", "MAX", "EQ",
    "NE", "LT", "LE", "GT", "GE", "NEGATE", "ABSOLUTE", "NOT", "SKIP_IF_FALSE", "SKIP_IF_TRUE",
)  # fmt: skip
LIMIT = 1 << 63
DEEPEST = 32  # items on the stack


class CannotExpress(Exception):
    """No operation exists for a part of the text."""


def stack_program(text: str, symbols: Sequence[str]) -> tuple[tuple[int, int], ...] | None:
    """(index in OPERATIONS, argument) for each operation, or None."""
    try:
        writer = RelationWriter(symbols)
        writer.expression(ast.parse(text.strip(), mode="eval").body)
    except (CannotExpress, SyntaxError, RecursionError):
        return None
    if depth(writer.code) > DEEPEST:
        return None
    return tuple((OPERATIONS.index(operation), argument) for operation, argument in writer.code)


def depth(code: Code) -> int:
    """The maximal number of items on the stack."""
    deepest = now = 0
    for operation, _ in code:
        if operation in ("SYMBOL", "CONSTANT"):
            now += 1
        elif operation not in ("NEGATE", "ABSOLUTE", "NOT"):
            now -= 1  # a skip that is not taken takes its item, too
        deepest = max(deepest, now)
    return deepest


class RelationWriter:
    """Appends operations. Methods return whether their result is a truth value."""

    def __init__(self, symbols: Sequence[str]) -> None:
        self.symbols = list(symbols)
        self.code: Code = []

    def expression(self, node: ast.expr) -> bool:
        write = NODES.get(type(node))
        if write is None:
            raise CannotExpress(type(node).__name__)
        return write(self, node)

    def number(self, value: int) -> None:
        if not -LIMIT <= value < LIMIT:
            raise CannotExpress(value)
        self.code.append(("CONSTANT", value))


def constant(writer: RelationWriter, node: ast.Constant) -> bool:
    if not isinstance(node.value, int):
        raise CannotExpress(node.value)
    writer.number(int(node.value))
    return isinstance(node.value, bool)


def name(writer: RelationWriter, node: ast.Name) -> bool:
    if node.id not in writer.symbols:
        raise CannotExpress(node.id)
    writer.code.append(("SYMBOL", writer.symbols.index(node.id)))
    return False


def binary(writer: RelationWriter, node: ast.BinOp) -> bool:
    return pair(writer, BINARY.get(type(node.op)), node.left, node.right)


def pair(writer: RelationWriter, operation: str | None, left: ast.expr, right: ast.expr) -> bool:
    if operation is None:
        raise CannotExpress(ast.unparse(left))
    writer.expression(left)
    writer.expression(right)
    writer.code.append((operation, 0))
    return operation in COMPARISONS.values()


def unary(writer: RelationWriter, node: ast.UnaryOp) -> bool:
    operation = {ast.USub: "NEGATE", ast.Not: "NOT"}.get(type(node.op))
    if operation is None:
        raise CannotExpress(ast.unparse(node))
    writer.expression(node.operand)
    writer.code.append((operation, 0))
    return operation == "NOT"


def comparison(writer: RelationWriter, node: ast.Compare) -> bool:
    ends = [node.left, *node.comparators]
    skips = []
    for number, operation in enumerate(node.ops):
        if number:
            skips.append(skip(writer, "SKIP_IF_FALSE"))
        pair(writer, COMPARISONS.get(type(operation)), ends[number], ends[number + 1])
    land(writer, skips)
    return True


def both_or_either(writer: RelationWriter, node: ast.BoolOp) -> bool:
    operation = "SKIP_IF_FALSE" if isinstance(node.op, ast.And) else "SKIP_IF_TRUE"
    skips = []
    for number, value in enumerate(node.values):
        if number:
            skips.append(skip(writer, operation))
        if not writer.expression(value):
            raise CannotExpress(ast.unparse(value))
    land(writer, skips)
    return True


def skip(writer: RelationWriter, operation: str) -> int:
    """Keeps the top item and skips the following operations if its truth is this; else drops it.
    `land` sets how far."""
    writer.code.append((operation, 0))
    return len(writer.code) - 1


def land(writer: RelationWriter, skips: list[int]) -> None:
    for at in skips:
        writer.code[at] = (writer.code[at][0], len(writer.code) - at - 1)


def call(writer: RelationWriter, node: ast.Call) -> bool:
    function = node.func.id if isinstance(node.func, ast.Name) else ""
    if node.keywords:
        raise CannotExpress(function)
    if function in CALLS and len(node.args) == 2:
        return pair(writer, CALLS[function], *node.args)
    write = FUNCTIONS.get((function, len(node.args)))
    if write is None:
        raise CannotExpress(function)
    return write(writer, *node.args)


def absolute(writer: RelationWriter, value: ast.expr) -> bool:
    writer.expression(value)
    writer.code.append(("ABSOLUTE", 0))
    return False


def negation(writer: RelationWriter, value: ast.expr) -> bool:
    writer.expression(value)
    writer.code.append(("NOT", 0))
    return True


def ceiling(writer: RelationWriter, left: ast.expr, right: ast.expr) -> bool:
    """-(-a // b)"""
    writer.expression(left)
    writer.code.append(("NEGATE", 0))
    writer.expression(right)
    writer.code += [("FLOORDIV", 0), ("NEGATE", 0)]
    return False


def modular(writer: RelationWriter, value: ast.expr, divisor: ast.expr, modulus: ast.expr) -> bool:
    """a // b % c"""
    pair(writer, "FLOORDIV", value, divisor)
    writer.expression(modulus)
    writer.code.append(("MODULO", 0))
    return False


FUNCTIONS: dict[tuple[str, int], Callable[..., bool]] = {
    ("Abs", 1): absolute,
    ("Not", 1): negation,
    ("CeilDiv", 2): ceiling,
    ("ModularIndexing", 3): modular,
    ("Identity", 1): lambda writer, value: writer.expression(value),
}
NODES: dict[type, Callable[..., bool]] = {
    ast.Constant: constant, ast.Name: name, ast.BinOp: binary, ast.UnaryOp: unary,
    ast.Compare: comparison, ast.BoolOp: both_or_either, ast.Call: call,
}  # fmt: skip
