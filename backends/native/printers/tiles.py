"""Tile shapes for GPU kernels: which loops a tile covers, default block sizes, and the candidates
worth measuring."""

from __future__ import annotations

from dataclasses import replace

from ....records import record
from ..ir.index import Index, Var, product
from ..ir.program import Kernel
from ..ir.scalar import LOAD
from ..ir.scalar_ops import SCALAR_OPS
from .base import Plan, second_side

LONGEST_PERSISTENT = 32768
# numbers of four bytes that a thread can hold of a persistent row; with more, its registers spill
MOST_HELD = 128
# elements of kernels without reductions: larger tiles would leave processors idle
TINY, FEW = (1 << 17, 1 << 20)
MANY_ROWS = 1 << 12
# numbers that one program adds up of a column, at most, where columns are split into chunks: then
# there are enough programs for small tiles
CHUNK = 1 << 10
# cost of an element's operations, in additions, beyond which a kernel is limited by arithmetic
# instead of memory
EXPENSIVE = 256


@record
class Tiles:
    """Sizes of a tile, the warps that work on it, and how many iterations of a loop are under way
    at once. `rblock` may be the whole of a persistent row's width. `yblock`: the second side of a
    tile of a kernel without reductions, 0 where it has none."""

    xblock: int
    rblock: int
    warps: int
    persistent: bool
    yblock: int = 0
    stages: int = 1


@record
class Axis:
    """One side of a tile. `letter`: what its names begin with; `place`: how its numbers lie in the
    tile."""

    letter: str
    variables: tuple[Var, ...]
    place: str = ""

    @property
    def count(self) -> Index:
        return product(variable.size for variable in self.variables)

    @property
    def block(self) -> str:
        return f"{self.letter.upper()}BLOCK"

    @property
    def mask(self) -> str:
        return f"{self.letter}mask"

    @property
    def number(self) -> str:
        return f"{self.letter}index"


def power_of_two(number: int) -> int:
    """The next power of two, at least 1."""
    return 1 << max(0, (number - 1).bit_length())


def axes(kernel: Kernel, second: Var | None) -> tuple[Axis, ...]:
    """The sides of a kernel's tiles, the last one contiguous. second: of a tile with two sides over
    `outer`."""
    if kernel.inner:
        return Axis("x", kernel.outer, "[:, None]"), Axis("r", kernel.inner, "[None, :]")
    if second is None:
        return (Axis("x", kernel.outer),)
    others = tuple(variable for variable in kernel.outer if variable != second)
    return Axis("y", (second,), "[:, None]"), Axis("x", others, "[None, :]")


def choose_tiles(plan: Plan) -> Tiles:
    """Tile sizes by shape: small tables, measured on an H200."""
    if not plan.kernel.inner:
        return _without_reductions(plan)
    return _across_rows(plan.kernel) if plan.is_across_rows() else _along_rows(plan)


def _without_reductions(plan: Plan) -> Tiles:
    count = plan.kernel.rows.value
    few = count is not None and count <= FEW
    if second_side(plan) is not None:
        return Tiles(32, 1, 4, False, yblock=32) if few else Tiles(64, 1, 8, False, yblock=64)
    if count is not None and count <= TINY:
        return Tiles(256, 1, 4, False)
    if sum(SCALAR_OPS[node.op].cost for node in plan.nodes if node.op in SCALAR_OPS) >= EXPENSIVE:
        return Tiles(512, 1, 8, False)  # few elements a thread: each needs many registers
    halves = any(node.op == LOAD and node.dtype.itemsize <= 2 for node in plan.nodes)
    return Tiles(1024 if halves else 512, 1, 4, False)  # 16 bytes a thread


def _along_rows(plan: Plan) -> Tiles:
    """Neighbours in memory are in one row."""
    rows, columns = plan.kernel.rows.value or 1 << 20, plan.kernel.columns.value
    if columns is None:
        return Tiles(1, 2048, 8, False)
    rblock = power_of_two(columns)
    wide = held_along_rows(plan)
    if columns > LONGEST_PERSISTENT or wide * rblock > MOST_HELD * 512:
        return Tiles(1, 4096, 32, False)
    most = 2048 if rows >= MANY_ROWS and rblock >= 512 else 1024
    xblock = max(1, min(power_of_two(rows), most // rblock, 64))
    return Tiles(
        xblock, rblock, max(1, min(16, max(2, rblock // 512), xblock * rblock // 64)), True
    )


def held_along_rows(plan: Plan) -> int:
    """How many numbers of four bytes a thread holds for each element of a persistent row: what the
    kernel loads along it, and twice as much where it calculates in eight bytes (it compares the
    positions of a row with a label, as the gradient of cross_entropy() does)."""
    along = [node for node in plan.nodes if not plan.in_rows(node)]
    loads = sum(node.op == LOAD for node in along)
    return loads + 2 * any(node.op != LOAD and node.dtype.itemsize == 8 for node in along)


def _across_rows(kernel: Kernel) -> Tiles:
    """Neighbours in memory are in neighbouring rows."""
    rows, columns = kernel.rows.value or 1 << 20, kernel.columns.value or 1 << 20
    stores_elements = any(store.index.variables() & set(kernel.inner) for store in kernel.stores)
    if stores_elements and rows >= 8192 and 64 <= columns <= CHUNK:
        return Tiles(64, 64, 4, persistent=columns == 64)
    if columns <= 64:
        rblock = power_of_two(columns)
        xblock = max(1, min(power_of_two(rows), 4096 // rblock, 64))
        return Tiles(xblock, rblock, max(1, min(8, xblock * rblock // 256)), True)
    if rows >= 8192 and columns <= CHUNK:
        return Tiles(32, 32 if columns <= 256 else 64, 4, False)
    if rows >= 8192:
        return Tiles(32, 256, 16, False)
    xblock = min(16 if rows >= 2048 else 8, power_of_two(rows))
    rblock = min(512, power_of_two(columns))
    return Tiles(xblock, rblock, 16 if xblock * rblock >= 2048 else 8, False)


def tiles_to_try(plan: Plan) -> list[Tiles]:
    """What tuning compares; the table's choice comes first."""
    first = choose_tiles(plan)
    kernel = plan.kernel
    if first.yblock:
        more = [
            replace(first, xblock=x, yblock=y, warps=warps)
            for x, y, warps in ((32, 32, 4), (64, 32, 4), (64, 64, 4), (128, 64, 8))
        ]
        more.append(Tiles(256, 1, 4, False))
    elif not kernel.inner:
        more = [
            Tiles(x, 1, warps, False)
            for x, warps in (
                (256, 2),
                (256, 4),
                (512, 4),
                (512, 8),
                (1024, 4),
                (1024, 8),
                (2048, 8),
            )
        ]
    else:
        more = _reductions_to_try(kernel, first)
    return list(dict.fromkeys([first, *more]))


def _reductions_to_try(kernel: Kernel, first: Tiles) -> list[Tiles]:
    """Tiles for a reduction near those of the heuristic: larger and smaller sides, more and fewer
    warps, with and without a loop over the columns."""
    columns = kernel.columns.value
    rows = power_of_two(kernel.rows.value or 1 << 20)
    if first.persistent:
        wider = replace(first, xblock=min(rows, 2 * first.xblock))
        narrower = replace(first, xblock=max(1, first.xblock // 2))
        more = [
            replace(tiles, warps=warps)
            for tiles in (first, wider, narrower)
            for warps in _warps_near(first.warps)
        ]
        return [
            *more,
            *(
                Tiles(first.xblock, min(first.rblock, 1024), first.warps, False, stages=2)
                for _ in range(first.rblock >= 1024)
            ),
        ]
    sides = [(first.xblock, first.rblock)]
    sides += [
        (min(rows, first.xblock * x // 4), max(16, first.rblock * r // 4))
        for x, r in ((8, 4), (8, 2), (4, 2), (4, 8), (16, 1))
    ]
    more = [
        Tiles(max(1, x), r, warps, False, stages=stages)
        for x, r in sides
        for warps in (8, 16)
        for stages in (1, 2)
    ]
    if columns is not None and columns <= 2 * LONGEST_PERSISTENT and first.xblock == 1:
        more.append(Tiles(1, power_of_two(columns), 32, True))
    return more


def _warps_near(warps: int) -> tuple[int, ...]:
    return tuple(dict.fromkeys(max(1, min(16, count)) for count in (warps, warps // 2, warps * 2)))
