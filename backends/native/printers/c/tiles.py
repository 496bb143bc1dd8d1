"""Square tiles over two loops, where some buffers are contiguous along the one and others along the
other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from ...ir.index import Index, Var
from ...ir.program import Buffer, Store
from ...ir.scalar import LOAD, TRUE, Access, Scalar
from ..base import Parameters, Plan, Scope
from .loops import SIMD, CFunction, block
from .scalars import TYPES

SIDE = 16  # of a tile over two loops
PITCH = SIDE + 1  # of a tile's lines: neighbours across them are in different parts of the cache
WORD = 4  # bytes of an element that fill_tile and empty_tile transpose (scalars.py)


class TransposedTile:
    """Buffers that are contiguous along `second`, where others are contiguous along `last`. They
    are copied through arrays of a tile's size, so that all of a cache line is used at once, however
    many such lines have one place in the cache. `near`: arrays by what is loaded into them; `far`:
    what is stored from arrays."""

    def __init__(self, second: Var, last: Var) -> None:
        self.second, self.last = second, last
        self.near: dict[Access, TileArray] = {}
        self.far: list[TileArray] = []

    def holds(self, index: Index) -> bool:
        return (
            index.coefficient(self.second) == 1
            and index.coefficient(self.last) != 1
            and self.last in index.variables()
        )

    def array(self, name: str, kind: torch.dtype, index: Index, element: str) -> TileArray:
        """An array for elements of a buffer; element: one of them, as C."""
        step = index.coefficient(self.last) if kind.itemsize == WORD else None
        return TileArray(name, kind, element, step)

    def element(self, array: TileArray) -> str:
        """The element of an array that belongs to the current ones of both loops."""
        line, place = (f"{one.name} - {one.name}_from" for one in (self.last, self.second))
        if array.step is not None:
            return f"{array.name}[IN_TILE({line}, {place})]"
        return f"{array.name}[({line}) * {PITCH} + {place}]"


@dataclass(frozen=True)
class TileArray:
    """An array of a tile's size. memory: the element of a buffer that is copied from or to it, as
    C. step: from one of its lines to the next in that buffer, if whole lines are transposed."""

    name: str
    kind: torch.dtype
    memory: str
    step: Index | None


class TiledFunction(CFunction):
    """Tiles over the last loop and `second`."""

    def __init__(
        self,
        plan: Plan,
        second: Var,
        buffers: Mapping[str, Buffer],
        threads: int,
        whole: Parameters | None,
    ) -> None:
        super().__init__(plan, buffers, threads, whole)
        self.second, self.last = second, plan.kernel.outer[-1]
        self.turned = TransposedTile(second, self.last)

    def nest(self, top: Scope) -> None:
        """Prints a loop over all tiles, which threads divide, and inside it the transposed tile."""
        others = [
            variable for variable in self.kernel.outer if variable not in (self.second, self.last)
        ]
        outside = Scope(frozenset(others), top)
        line = Scope(frozenset([*others, self.second]), outside)
        inside = Scope(frozenset(self.kernel.outer), line)
        self.stores(inside, 0)
        tile = self.tile(line.lines, inside.lines)
        count = f"(({self.index(self.second.size)} + {SIDE - 1}) / {SIDE})"
        total = " * ".join([*(f"({self.index(variable.size)})" for variable in others), count])
        last, second = self.last.name, self.second.name
        start = (
            f"for (int64_t {last}_from = 0; {last}_from < {self.index(self.last.size)}; "
            f"{last}_from += {SIDE}) {{"
        )
        body = [
            *self.of_flat(f"tile / {count}", others),
            *outside.lines,
            f"const int64_t {second}_from = tile % {count} * {SIDE};",
            self.end_of_tile(self.second),
            *block(start, tile),
        ]
        top.lines += ["#pragma omp parallel for schedule(static)"] * self.uses_threads
        top.lines += block(f"for (int64_t tile = 0; tile < {total}; tile++) {{", body)

    def tile(self, line: Sequence[str], inside: Sequence[str]) -> list[str]:
        """The code of one tile: it fills arrays, computes, and empties arrays. line: what is
        computed for an element of `second`. inside: for each element."""
        turned = self.turned
        near, far = list(turned.near.values()), turned.far
        arrays = [f"{TYPES[one.kind]} {one.name}[{SIDE * PITCH}] ALIGNED;" for one in (*near, *far)]
        fill = [f"{turned.element(one)} = {one.memory};" for one in near if one.step is None]
        empty = [f"{one.memory} = {turned.element(one)};" for one in far if one.step is None]
        along, across = (
            f"for (int64_t {v} = {v}_from; {v} < {v}_to; {v}++) {{"
            for v in (self.last.name, self.second.name)
        )
        return [
            *arrays,
            self.end_of_tile(self.last),
            *self.transpositions("fill_tile", near),
            *(block(along, [SIMD, *block(across, fill)]) if fill else []),
            *block(across, [*line, SIMD, *block(along, inside)]),
            *(block(along, [SIMD, *block(across, empty)]) if empty else []),
            *self.transpositions("empty_tile", far),
        ]

    def transpositions(self, function: str, arrays: Sequence[TileArray]) -> list[str]:
        """Calls of fill_tile or empty_tile, within a block where both loops are at their start."""
        last, second = self.last.name, self.second.name
        lengths = f"{last}_to - {last}_from, {second}_to - {second}_from"
        calls = [
            f"{function}({one.name}, &{one.memory}, {self.index(one.step)}, {lengths});"
            for one in arrays
            if one.step is not None
        ]
        starts = [f"const int64_t {name} = {name}_from;" for name in (last, second)]
        return block("{", [*starts, *calls]) if calls else []

    def end_of_tile(self, variable: Var) -> str:
        """Where all tiles are whole, the C compiler knows how long their loops are."""
        end, size = f"{variable.name}_from + {SIDE}", variable.size
        whole = size.value is not None and size.value % SIDE == 0
        return (
            f"const int64_t {variable.name}_to = "
            f"{end if whole else f'least({end}, {self.index(size)})'};"
        )

    def expression(self, node: Scalar, args: Sequence[str]) -> str:
        access = node.attr
        if node.op != LOAD or node.args != (TRUE,) or not self.turned.holds(access.index):
            return super().expression(node, args)
        array = self.turned.near.get(access)
        if array is None:
            source = f"{self.pointers[access.buffer]}[{self.index(access.index)}]"
            kind, name = self.buffers[access.buffer].dtype, f"near{len(self.turned.near)}"
            array = self.turned.near[access] = self.turned.array(name, kind, access.index, source)
        return self.turned.element(array)

    def target(self, store: Store) -> str:
        target = super().target(store)
        if not self.turned.holds(store.index):
            return target
        name, kind = f"far{len(self.turned.far)}", store.value.dtype
        array = self.turned.array(name, kind, store.index, target)
        self.turned.far.append(array)
        return self.turned.element(array)
