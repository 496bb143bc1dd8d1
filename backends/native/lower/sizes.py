"""torch's sizes, static or symbolic, as Index. Sizes that are not polynomials become symbols that
Python computes at each call."""

from __future__ import annotations

from typing import Any

import sympy
import torch
from torch.utils._sympy.functions import FloorDiv, Mod, PythonMod

from ..ir.index import Index, Sym, atom, index


class Sizes:
    """The symbols of one program. `hidden`: by name of a symbol, the sympy expression that it
    stands for."""

    def __init__(self) -> None:
        self.hidden: dict[str, sympy.Expr] = {}
        self._known: dict[sympy.Expr, Index] = {}

    def __call__(self, size: Any) -> Index:
        """An int, SymInt or Index."""
        if isinstance(size, (int, Index)):
            return index(size)
        if isinstance(size, torch.SymInt):
            return self.expression(size.node.expr)
        raise TypeError(f"a size must be an int, SymInt or Index, not {type(size).__name__}")

    def expression(self, expression: sympy.Expr) -> Index:
        if expression not in self._known:
            self._known[expression] = self._convert(expression)
        return self._known[expression]

    def _convert(self, expression: sympy.Expr) -> Index:
        if isinstance(expression, sympy.Integer):
            return index(int(expression))
        if isinstance(expression, sympy.Add):
            total = index(0)
            for part in expression.args:
                total = total + self.expression(part)
            return total
        if isinstance(expression, sympy.Mul):
            total = index(1)
            for part in expression.args:
                total = total * self.expression(part)
            return total
        if (
            isinstance(expression, sympy.Pow)
            and isinstance(expression.exp, sympy.Integer)
            and expression.exp > 0
        ):
            total = index(1)
            for _ in range(int(expression.exp)):
                total = total * self.expression(expression.base)
            return total
        if isinstance(expression, FloorDiv) and expression.args[1].is_positive:
            return self.expression(expression.args[0]) // self.expression(expression.args[1])
        if isinstance(expression, (Mod, PythonMod)) and expression.args[1].is_positive:
            return self.expression(expression.args[0]) % self.expression(expression.args[1])
        name = str(expression) if isinstance(expression, sympy.Symbol) else f"z{len(self.hidden)}"
        self.hidden[name] = expression
        return atom(Sym(name))
