"""Prints a Modification as lines of Triton in a kernel that knows the tile's scores and positions.

The variables b, h, i and j are 32-bit numbers or tiles of them, which broadcast to the scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from ..ir.index import Index, Var
from ..ir.scalar import CONST, INDEX, LOAD, Scalar
from ..printers.base import Scope
from ..printers.tiles import Axis, Tiles
from ..printers.triton.kernel import TritonFunction
from ..printers.triton.scalars import bracket
from .modification import Modification

INT32 = torch.iinfo(torch.int32)
SIDES = Axis("i", (), ""), Axis("j", (), "")  # literals are tiles with two sides
UNTUNED = Tiles(1, 1, 1, persistent=False)


class ModificationPrinter(TritonFunction):
    """Writes one modification. letter: the names of its values begin with it."""

    def __init__(self, modification: Modification, letter: str) -> None:
        super().__init__(modification.kernel, modification.buffers, UNTUNED)
        self.modification, self.letter = modification, letter
        self.axes = SIDES
        self.pointers = {name: name for name in modification.captured}
        self.wide_positions = False

    def new_name(self, letter: str) -> str:
        self.counter += 1
        return f"{self.letter}{self.counter - 1}"

    def lines(self, given: Mapping[str, str]) -> tuple[list[str], str]:
        """The lines, and the name of the result. given: names of what SCORE and SLOPE stand for."""
        scope = Scope(frozenset(self.kernel.outer))
        scope.names |= {
            id(node): given[node.attr.buffer]
            for node in self.plan.nodes
            if node.op == LOAD and node.attr.buffer in given
        }
        name = self.value(self.modification.value, scope)
        return scope.lines, name

    def constant(self, node: Scalar) -> str:
        if node.dtype == torch.int64 and INT32.min <= node.attr <= INT32.max:
            return bracket(str(node.attr))
        return super().constant(node)

    def expression(self, node: Scalar, args: Sequence[str]) -> str:
        if node.op == INDEX:
            self.wide_positions = not fits_32_bits(node.attr)
            text = self.index(node.attr)
            self.wide_positions = False
            return text
        return super().expression(node, args)

    def atom(self, item: object, holes: Sequence[str]) -> str:
        text = super().atom(item, holes)
        if self.wide_positions and isinstance(item, Var):
            return f"{text}.to(tl.int64)"
        return text

    def load(self, node: Scalar, args: Sequence[str]) -> str:
        wide = [f"{bracket(text)}.to(tl.int64)" for text in args[1:]] if self.wide else args[1:]
        place = bracket(self.index(node.attr.index, wide))
        always = node.args[0].op == CONST
        mask = "" if always else f", {args[0]}, other=0"
        return f"tl.load({self.pointers[node.attr.buffer]} + {place}{mask})"


def fits_32_bits(expression: Index) -> bool:
    """Whether 32 bits hold the expression, and what it is calculated from, at every position."""
    bounds = expression.bounds()
    parts = [part for item in expression.atoms() for part in item.operands()]
    if bounds is None or not all(map(fits_32_bits, parts)):
        return False
    low, high = (bound.value for bound in bounds)
    return low is not None and high is not None and INT32.min <= low and high <= INT32.max
