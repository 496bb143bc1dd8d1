"""Square tiles over two loops, where some buffers are contiguous along the one and others along the
other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from ...ir.index import Index, Var
from ...ir.program import Buffer, Store
from ...ir.scalar import LOAD, TRUE, Access, Scalar
from ..base import Parameters, Plan, Scope
from .loops import SIMD, CFunction, block
from .scalars import TYPES

SIDE = 16  # of a tile over two loops
PITCH = SIDE + 1  # of a tile's lines: neighbours across them are in different parts of the cache


class TransposedTile:
    """Buffers that are contiguous along `second`, where others are contiguous along `last`. They
    are copied through arrays of a tile's size, so that all of a cache line is used at once, however
    many such lines have one place in the cache. `near`: arrays by what is loaded into them; `far`:
    what is stored from arrays; `kinds`: types of these."""

    def __init__(self, second: Var, last: Var) -> None:
        self.second, self.last = second, last
        self.near: dict[Access, str] = {}
        self.far: dict[str, str] = {}
        self.kinds: list[torch.dtype] = []

    @property
    def place(self) -> str:
        return (
            f"({self.last.name} - {self.last.name}_from) * {PITCH} + {self.second.name} - "
            f"{self.second.name}_from"
        )

    def holds(self, index: Index) -> bool:
        return (
            index.coefficient(self.second) == 1
            and index.coefficient(self.last) != 1
            and self.last in index.variables()
        )

    def load_near(self, access: Access) -> str:
        name = self.near.setdefault(access, f"near{len(self.near)}")
        return f"{name}[{self.place}]"

    def store_far(self, target: str, kind: torch.dtype) -> str:
        name = f"far{len(self.far)}"
        self.far[name] = target
        self.kinds.append(kind)
        return f"{name}[{self.place}]"


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
        near = {
            name: f"{self.pointers[access.buffer]}[{self.index(access.index)}]"
            for access, name in turned.near.items()
        }
        fill = [f"{name}[{turned.place}] = {source};" for name, source in near.items()]
        empty = [f"{target} = {name}[{turned.place}];" for name, target in turned.far.items()]
        kinds = [self.buffers[access.buffer].dtype for access in turned.near] + turned.kinds
        arrays = [
            f"{TYPES[kind]} {name}[{SIDE * PITCH}];"
            for kind, name in zip(kinds, [*near, *turned.far], strict=True)
        ]
        along, across = (
            f"for (int64_t {v} = {v}_from; {v} < {v}_to; {v}++) {{"
            for v in (self.last.name, self.second.name)
        )
        return [
            *arrays,
            self.end_of_tile(self.last),
            *(block(along, [SIMD, *block(across, fill)]) if fill else []),
            *block(across, [*line, SIMD, *block(along, inside)]),
            *(block(along, [SIMD, *block(across, empty)]) if empty else []),
        ]

    def end_of_tile(self, variable: Var) -> str:
        """Where all tiles are whole, the C compiler knows how long their loops are."""
        end, size = f"{variable.name}_from + {SIDE}", variable.size
        whole = size.value is not None and size.value % SIDE == 0
        return (
            f"const int64_t {variable.name}_to = "
            f"{end if whole else f'least({end}, {self.index(size)})'};"
        )

    def expression(self, node: Scalar, args: Sequence[str]) -> str:
        if node.op == LOAD and node.args == (TRUE,) and self.turned.holds(node.attr.index):
            return self.turned.load_near(node.attr)
        return super().expression(node, args)

    def target(self, store: Store) -> str:
        target = super().target(store)
        if self.turned.holds(store.index):
            return self.turned.store_far(target, store.value.dtype)
        return target
