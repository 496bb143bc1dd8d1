"""Reductions of many rows side by side, where neighbours in memory are in neighbouring rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from ...ir.index import Var
from ...ir.program import Buffer
from ...ir.scalar import Scalar
from ..base import Parameters, Plan, Scope
from .loops import SIMD, CFunction, block, indent
from .scalars import extreme, gathered_as

COLUMNS = 64  # of a block of rows that are reduced together
# longer sums of float are the sums of parts of so many elements, as exact as those of eager
PART = 16
LONG_SUM = 64  # the parts of longer sums of float are added up in double
FEWEST = 8  # elements of the innermost loop for which parts are worth their own loops


class ColumnsFunction(CFunction):
    """Blocks of rows; each reduction gathers in an array with an element a row. `parts`: by name of
    the array of a part of a long sum, that of the sum."""

    def __init__(
        self, plan: Plan, buffers: Mapping[str, Buffer], threads: int, whole: Parameters | None
    ) -> None:
        super().__init__(plan, buffers, threads, whole)
        self.parts: dict[str, str] = {}

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
                block.lines += self.row_loops([SIMD, *self.lanes(variable, inside.lines)])
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

    def row_loops(self, body: Sequence[str]) -> list[str]:
        """The loops along the rows; the last one in parts where there are long sums."""
        *before, last = self.kernel.inner
        if self.parts:
            lanes = f"for (int64_t lane = 0; lane < {COLUMNS}; lane++)"
            start = [f"{lanes} {part}[lane] = 0;" for part in self.parts]
            end = [f"{lanes} {total}[lane] += {part}[lane];" for part, total in self.parts.items()]
            lines = self.loop_in_parts(last, PART, start, body, end)
        else:
            lines = block(self.loop(last), body)
        for variable in reversed(before):
            lines = block(self.loop(variable), lines)
        self.parts = {}
        return lines

    def gather(self, node: Scalar, block: Scope, inside: Scope) -> str:
        """Adds a reduction's array to the block, and what it gathers to the loop; returns the
        array's name."""
        name = self.new_name("acc")
        start = {"sum": "0", "prod": "1", "any": "0"}.get(node.attr) or extreme(
            node.dtype, node.attr == "max"
        )
        kind = gathered_as(node, self.kernel, LONG_SUM if self.has_parts(node) else PART)
        block.lines.append(f"{kind} {name}[{COLUMNS}];")
        block.lines.append(
            f"for (int64_t lane = 0; lane < {COLUMNS}; lane++) {name}[lane] = {start};"
        )
        value = self.value(node.args[0], inside)
        target = name
        if self.has_parts(node):
            target = self.new_name("sum")
            self.parts[target] = name
            block.lines.append(f"float {target}[{COLUMNS}];")
        inside.lines.append(_gathering(node, f"{target}[lane]", value))
        return name

    def has_parts(self, node: Scalar) -> bool:
        """Whether a reduction is a sum of floats long enough to be added up in parts."""
        elements, last = self.kernel.columns.value, self.kernel.inner[-1].size.value
        return (
            (node.attr, node.dtype) == ("sum", torch.float32)
            and (elements is None or elements > PART)
            and (last is None or last >= FEWEST)
        )

    def lanes(self, variable: Var, lines: Sequence[str]) -> list[str]:
        first = f"const int64_t {variable.name} = block + lane;"
        return ["for (int64_t lane = 0; lane < width; lane++) {", *indent([first, *lines]), "}"]


def _gathering(node: Scalar, target: str, value: str) -> str:
    if node.attr in ("sum", "prod", "any"):
        return f"{target} {dict(sum='+', prod='*', any='|')[node.attr]}= {value};"
    sign = ">" if node.attr == "max" else "<"
    return f"{target} = ({value} {sign} {target} || {value} != {value}) ? {value} : {target};"
