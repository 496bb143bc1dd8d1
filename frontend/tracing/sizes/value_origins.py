"""ValueOrigins: which operation gave each number that only the values of a tensor tell.

Such a number has a symbol without a value. Where the capture needs the value after all, it starts
over with a break at that operation: Python then hands the number on, and it is one that varies.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ....errors import GraphBreak
from ....records import record
from ...pycode.code_place import CodePlace
from ..interpreter.outcome import Restart

if TYPE_CHECKING:
    import sympy  # takes half a second


@record
class ValueOrigin:
    """An operation that takes a number, or a size, from a tensor's values. position: where a break
    can be made before it. instruction: what is left to Python once facts about the number have
    turned out wrong (uncaptured_code.py). reason, detail: those of the break."""

    position: int
    instruction: CodePlace
    reason: str
    detail: str

    def break_before(self) -> GraphBreak:
        return GraphBreak(self.reason, self.detail)

    def restart(self) -> Restart:
        return Restart(self.position, self.break_before())


class ValueOrigins:
    """The origins of one capture's symbols."""

    def __init__(self) -> None:
        self._by_symbol: dict[sympy.Basic, ValueOrigin] = {}

    def add(self, symbols: Iterable[sympy.Basic], origin: ValueOrigin) -> None:
        self._by_symbol.update(dict.fromkeys(symbols, origin))

    def latest(self, expr: sympy.Basic) -> ValueOrigin | None:
        """The last operation that gave one of the symbols in an expression."""
        found = [
            self._by_symbol[symbol] for symbol in expr.free_symbols if symbol in self._by_symbol
        ]
        return max(found, key=lambda origin: origin.position, default=None)
