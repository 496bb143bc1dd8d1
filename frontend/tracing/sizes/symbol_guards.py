"""SymbolGuards: what a capture relies on about its symbols, and the guards that follow.

In: sizes and numbers with the paths to them, users' marks, and the questions that torch was asked.
Out: guards, and the numbers that these fix to one value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import sympy
import torch
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges

from ....guards.guard import Guard, Kind, ShapeExpr
from ....guards.source import Source
from ...values.tensor.dynamic_marks import Mark
from ...values.tensor.symbolic_number import Symbol, SymbolicNumber
from .guard_origins import GuardOrigin, RecordedGuards, backend_as_origin
from .size_facts import SizeFact, SpecialisedNumber
from .torch_symbols import PYTHON_TYPES, GuardPrinter, Symbols

PRINTER = GuardPrinter()


class SymbolGuards:
    """Collects what a capture relies on about its symbols. homes: where the number of each symbol
    is found. where: gives the current line of the program."""

    def __init__(
        self, env: Symbols, homes: dict[sympy.Symbol, SymbolicNumber], where: Callable[[], str]
    ) -> None:
        self.env, self.homes, self.where = env, homes, where
        self.asked_for = env.guards = RecordedGuards(lambda: GuardOrigin(where()))
        self.facts: list[SizeFact] = []
        self.ranges: list[tuple[sympy.Symbol, Mark]] = []
        self.marks: dict[sympy.Symbol, Mark] = {}
        # sizes that must not be zero, which torch assumes without a guard
        self.positive: dict[sympy.Symbol, str] = {}
        # symbols that were one number when the backend began, by the program's need
        self.fixed_before: frozenset[sympy.Symbol] | None = None

    def mark(self, symbol: sympy.Symbol, mark: Mark) -> None:
        """Relies on a user's mark of a size."""
        self.marks[symbol] = mark
        if mark.min is not None or mark.max is not None:
            self.ranges.append((symbol, mark))
            lower = mark.min if mark.min is not None else 0
            upper = mark.max if mark.max is not None else int_oo
            self.env.var_to_range[symbol] = ValueRanges(lower, upper)

    def rely_on_sign(self, sym: Symbol) -> None:
        """Relies on the symbols of a number not being zero, where torch assumes that."""
        for symbol in sym.node.expr.free_symbols:
            if symbol.is_positive:
                self.positive.setdefault(symbol, self.where())

    def is_fixed(self, expr: sympy.Basic) -> bool:
        """Whether an expression is guarded to be one number."""
        return bool(self._simplest(expr).is_number)

    @contextmanager
    def backend_at_work(self) -> Iterator[None]:
        """Surrounds the backend: guards added there are attributed to it, not to the program."""
        self.fixed_before = frozenset(filter(self.is_fixed, self.homes))
        before, self.asked_for.origin = self.asked_for.origin, backend_as_origin
        try:
            yield
        finally:
            self.asked_for.origin = before

    def guards(self) -> Iterator[Guard]:
        """The guards on symbols; complete only when the backend is done."""
        yield from self._guards_of_facts()
        yield from self._guards_of_ranges()
        for symbol, line in self.positive.items():
            if self._can_be_read(symbol) and not self.is_fixed(symbol):
                yield self._relation(sympy.Ge(symbol, 1, evaluate=False), line)
        yield from self._guards_asked_for()

    def _guards_of_facts(self) -> Iterator[Guard]:
        """A number that has a symbol's value, or that of a calculation with symbols, has it
        again."""
        for fact in self.facts:
            expr = self._simplest(fact.sym.node.expr)
            home = self.homes.get(expr)
            if home is not None and home.source == fact.source:
                continue
            symbols = fact.sym.node._expr.free_symbols  # before anything was said of them
            line = next(filter(None, map(self._line_of, sorted(symbols, key=str))), "")
            if expr.is_number:
                yield Guard(fact.source, Kind.EQUALS, PYTHON_TYPES[type(fact.sym)](fact.sym), line)
            else:
                yield self._relation(
                    sympy.Eq(sympy.Symbol("here"), expr, evaluate=False),
                    line,
                    {"here": fact.source},
                )

    def _guards_of_ranges(self) -> Iterator[Guard]:
        """The bounds of sizes that the user marked as dynamic."""
        for symbol, mark in self.ranges:
            if mark.min is not None:
                yield self._relation(sympy.Ge(symbol, mark.min, evaluate=False), "")
            if mark.max is not None:
                yield self._relation(sympy.Le(symbol, mark.max, evaluate=False), "")

    def _guards_asked_for(self) -> Iterator[Guard]:
        """What the program, torch or a backend decided by comparing symbols."""
        said = set()
        for asked, origin in zip(self.asked_for, self.asked_for.origins, strict=True):
            expr = self._simplest(asked.expr)
            if expr in (sympy.true, True) or expr in said or not self._can_be_read(expr):
                continue
            said.add(expr)
            if self._is_value_of_floats(expr):
                yield from self._each_as_now(expr, origin.line)
            else:
                yield self._relation(expr, origin.line)

    def _is_value_of_floats(self, expr: Any) -> bool:
        """Whether a fact is that a calculation with floats has one value. sympy rearranges it, and
        then it rounds otherwise than Python's."""
        if not isinstance(expr, sympy.Eq) or any(side.is_Symbol for side in expr.args):
            return False
        return any(
            isinstance(self.homes[symbol].sym, torch.SymFloat) for symbol in expr.free_symbols
        )

    def _each_as_now(self, expr: Any, line: str) -> Iterator[Guard]:
        """Guards that each number in a calculation is the one of this call."""
        for symbol in sorted(expr.free_symbols, key=str):
            value = self.homes[symbol]
            assert value.source is not None
            hint = PYTHON_TYPES[type(value.sym)](value.sym.node.hint)
            yield Guard(value.source, Kind.EQUALS, hint, line)

    def _simplest(self, expr: Any) -> Any:
        return self.env.replace(expr)

    def _can_be_read(self, expr: sympy.Basic) -> bool:
        """Whether each symbol has a source from which its number is read. The others are checked by
        the operators themselves."""
        return all(
            symbol in self.homes and self.homes[symbol].source is not None
            for symbol in expr.free_symbols
        )

    def _relation(self, expr: Any, line: str, positions: dict[str, Source] | None = None) -> Guard:
        sources = dict(positions or {})
        for symbol in sorted(expr.free_symbols, key=str):
            if str(symbol) not in sources:
                source = self.homes[symbol].source
                assert source is not None
                sources[str(symbol)] = source
        symbols = tuple(sources.items())
        return Guard(symbols[0][1], Kind.SHAPE, ShapeExpr(PRINTER.doprint(expr), symbols), line)

    def specialised_numbers(self) -> list[SpecialisedNumber]:
        """The numbers that were to vary and are guarded."""
        found = []
        for symbol, value in self.homes.items():
            if value.source is None or not self.is_fixed(symbol):
                continue
            by_backend = self.fixed_before is not None and symbol not in self.fixed_before
            origin = self._last_origin(symbol) if by_backend else GuardOrigin(self._line_of(symbol))
            found.append(
                SpecialisedNumber(
                    value.source,
                    PYTHON_TYPES[type(value.sym)](value.sym),
                    origin.line,
                    self.marks.get(symbol),
                    origin.operator,
                )
            )
        return found

    def _line_of(self, symbol: sympy.Symbol) -> str:
        """The user's line that first needed something of a symbol."""
        return next((origin.line for origin in self._origins(symbol)), "")

    def _last_origin(self, symbol: sympy.Symbol) -> GuardOrigin:
        """The origin of the guard that made a symbol one number: no question about it follows."""
        return next(reversed([GuardOrigin("", "the whole graph"), *self._origins(symbol)]))

    def _origins(self, symbol: sympy.Symbol) -> Iterator[GuardOrigin]:
        asked = zip(self.asked_for, self.asked_for.origins, strict=True)
        return (origin for guard, origin in asked if symbol in guard.expr.free_symbols)
