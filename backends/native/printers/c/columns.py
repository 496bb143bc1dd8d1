"""Reductions of many rows side by side, where neighbours in memory are in neighbouring rows."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.index import Var
from ...ir.scalar import Scalar
from ..base import Scope
from .loops import SIMD, CFunction, indent
from .scalars import extreme, gathered_as

COLUMNS = 64  # of a block of rows that are reduced together
LONG_SUM = 64  # longer sums of float, one element after the other, are added up in double


class ColumnsFunction(CFunction):
    """Blocks of rows; each reduction gathers in an array with an element a row."""

    def outer_loops(self) -> Sequence[Var]:
        return self.kernel.outer[:-1]

    def body(self, outside: Scope) -> None:
        """Prints the loop over blocks of rows, and inside each the stages, one loop of SIMD lanes
        after the other."""
        variable = self.kernel.outer[-1]
        size = self.index(variable.size)
        block = Scope(outside.variables, outside)
        block.lines.append(
            f"const int64_t width = {size} - block < {COLUMNS} ? {size} - block : {COLUMNS};"
        )
        found: dict[int, str] = {}
        for stage in range(self.plan.stages + 1):
            reductions = self.plan.reductions(stage)
            inside = Scope(
                block.variables | {variable} | set(self.kernel.inner), block, names=dict(found)
            )
            names = [self.gather(node, block, inside) for node in reductions]
            self.stores(inside, stage, full=True)
            if inside.lines:
                lines = [SIMD, *self.lanes(variable, inside.lines)]
                for loop_variable in reversed(self.kernel.inner):
                    lines = [self.loop(loop_variable), *indent(lines), "}"]
                block.lines += lines
            found |= {
                id(node): f"{name}[lane]" for node, name in zip(reductions, names, strict=True)
            }
            ending = Scope(block.variables | {variable}, block, names=dict(found))
            self.stores(ending, stage, full=False)
            if ending.lines:
                block.lines += [SIMD, *self.lanes(variable, ending.lines)]
        outside.lines += [
            f"for (int64_t block = 0; block < {size}; block += {COLUMNS}) {{",
            *indent(block.lines),
            "}",
        ]

    def gather(self, node: Scalar, block: Scope, inside: Scope) -> str:
        """Adds a reduction's array to the block, and what it gathers to the loop; returns the
        array's name."""
        name = self.new_name("acc")
        start = {"sum": "0", "prod": "1", "any": "0"}.get(node.attr) or extreme(
            node.dtype, node.attr == "max"
        )
        block.lines.append(f"{gathered_as(node, self.kernel, LONG_SUM)} {name}[{COLUMNS}];")
        block.lines.append(
            f"for (int64_t lane = 0; lane < {COLUMNS}; lane++) {name}[lane] = {start};"
        )
        value = self.value(node.args[0], inside)
        inside.lines.append(_gathering(node, f"{name}[lane]", value))
        return name

    def lanes(self, variable: Var, lines: Sequence[str]) -> list[str]:
        first = f"const int64_t {variable.name} = block + lane;"
        return ["for (int64_t lane = 0; lane < width; lane++) {", *indent([first, *lines]), "}"]


def _gathering(node: Scalar, target: str, value: str) -> str:
    if node.attr in ("sum", "prod", "any"):
        return f"{target} {dict(sum='+', prod='*', any='|')[node.attr]}= {value};"
    sign = ">" if node.attr == "max" else "<"
    return f"{target} = ({value} {sign} {target} || {value} != {value}) ? {value} : {target};"
