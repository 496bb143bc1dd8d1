"""torch's sizes, static or symbolic, as Index. Sizes that are not polynomials become symbols that
Python computes at each call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ..ir.index import ONE, Index, Sym, atom, index, product

if TYPE_CHECKING:  # a process without varying sizes needs no sympy
    import sympy

QUOTIENTS, REMAINDERS = ("FloorDiv", "CleanDiv"), ("Mod", "PythonMod")  # torch's expressions


def is_known(fact: bool | torch.SymBool) -> bool:
    """Whether a fact about sizes holds for all that the guards let through. Adds no guard."""
    return fact if isinstance(fact, bool) else fact.node.statically_known_true("", 0)


def is_rounded(expression: sympy.Expr) -> bool:
    """Whether it is a quotient or a remainder of integers."""
    return type(expression).__name__ in (*QUOTIENTS, *REMAINDERS)


class Sizes:
    """The symbols of one program. `hidden`: by name of a symbol, the sympy expression that it
    stands for."""

    def __init__(self) -> None:
        self.hidden: dict[str, sympy.Expr] = {}
        self._known: dict[sympy.Expr, Index] = {}
        self._shape_env: Any = None

    def __call__(self, size: Any) -> Index:
        """An int, SymInt or Index."""
        if isinstance(size, (int, Index)):
            return index(size)
        if isinstance(size, torch.SymInt):
            self._shape_env = size.node.shape_env
            # A quotient that is guarded to be 1 stays one to torch, but tensors are broadcast along
            # a size of 1.
            if size.node.hint == 1 and is_known(size == 1):
                return ONE
            return self.expression(size.node.expr)
        raise TypeError(f"a size must be an int, SymInt or Index, not {type(size).__name__}")

    def expression(self, expression: sympy.Expr) -> Index:
        if expression not in self._known:
            self._known[expression] = self._convert(expression)
        return self._known[expression]

    def _convert(self, expression: sympy.Expr) -> Index:
        """The expression as an Index: a polynomial of sizes, with divisions where `_can_divide`
        allows them. Other expressions get a name, and the host computes them."""
        if expression.is_Integer:
            return index(int(expression))
        if expression.is_Add:
            return self._sum(expression)
        if expression.is_Mul:
            return product(map(self.expression, expression.args))
        if expression.is_Pow and expression.exp.is_Integer and expression.exp > 0:
            return product([self.expression(expression.base)] * int(expression.exp))
        if is_rounded(expression) and self._can_divide(*expression.args):
            dividend, divisor = map(self.expression, expression.args)
            is_quotient = type(expression).__name__ in QUOTIENTS
            return dividend // divisor if is_quotient else dividend % divisor
        return self._hide(expression)

    def _sum(self, expression: sympy.Add) -> Index:
        """A sum with a quotient, as the sizes of convolutions are, is one symbol: products of such
        sums would have many terms, and no factor to divide by."""
        content, rest = expression.primitive()
        if content > 1:
            return self.expression(rest) * int(content)
        if expression.find(is_rounded) and self._is_nonnegative(expression):
            return self._hide(expression)
        total = index(0)
        for part in expression.args:
            total = total + self.expression(part)
        return total

    def _can_divide(self, dividend: sympy.Expr, divisor: sympy.Expr) -> bool:
        """Whether C rounds the quotient as Python does."""
        return bool(divisor.is_positive) and self._is_nonnegative(dividend)

    def _hide(self, expression: sympy.Expr) -> Index:
        name = str(expression) if expression.is_Symbol else f"z{len(self.hidden)}"
        self.hidden[name] = expression
        return atom(Sym(name))

    def _is_nonnegative(self, expression: sympy.Expr) -> bool:
        return self._shape_env is None or bool(self._shape_env.bound_sympy(expression).lower >= 0)
