"""SymbolicNumber: a number that varies between calls: torch's symbol for it, and how the program
computed it.

Where Python needs the number itself (a key, the length of a loop), it is specialised: compiled code
is then for that number only. Functions of such numbers are in number_arithmetic.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
import torch.fx

from ....guards.source import CalculatedNumber, Source, safe_repr
from ..base import Value
from ..constant import Constant, VaryingLiteral
from ..context import TraceContext
from ..emitter import Emitter

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


def is_number(value: Value) -> bool:
    return isinstance(value, SymbolicNumber) or (
        isinstance(value, Constant) and type(value.object) in (int, float, bool)
    )


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


def can_be_symbol(number: int | float) -> bool:
    """Whether a symbol can stand for a number: torch's ints have 64 bits, sympy's floats are finite
    and have one zero."""
    if type(number) is int:
        return number.bit_length() <= MOST_BITS
    return math.isfinite(number) and (number != 0 or math.copysign(1.0, number) > 0)


def python_or_symbol(value: Value) -> Any:
    """A number as Python's, or as the symbol of one that varies."""
    return value.sym if isinstance(value, SymbolicNumber) else value.constant()
