"""How kernels are cut into tiles for the GPU."""

from __future__ import annotations

import pytest
import torch
from framejit.backends.native.fuse.simplify import simplify
from framejit.backends.native.ir.index import atom, index
from framejit.backends.native.ir.program import Kernel, Store, loops
from framejit.backends.native.ir.scalar import const, load, position, reduce, scalar
from framejit.backends.native.printers.base import Plan, second_side
from framejit.backends.native.printers.tiles import choose_tiles, tiles_to_try

from .. import kernels

CASES = kernels.all_cases()


def plan(name):
    return Plan(simplify(CASES[name].kernel))


@pytest.mark.parametrize(
    ("name", "side"),
    [
        ("transposed 40x50", "x0"), ("transposed halves", "x0"), ("channels last", "x1"), ("of any size", "x1"),
        ("transposed 5x90", None), ("transposed 90x5", None),  # one side is too short
        ("add-torch.float32", None), ("masked", None), ("softmax", None), ("grown 9", None),
    ],
)  # fmt: skip
def test_the_second_side_is_where_others_are_contiguous(name, side):
    found = second_side(plan(name))
    assert (found and found.name) == side
    assert bool(choose_tiles(plan(name)).yblock) == (side is not None)


@pytest.mark.parametrize(
    "name",
    [
        "transposed 40x50",
        "add-torch.float32",
        "softmax",
        "sum-torch.float32-5x70",
        "sum-torch.float32-130x3",
    ],
)
def test_what_is_tried_begins_with_the_table_and_fits(name):
    tried = tiles_to_try(plan(name))
    assert tried[0] == choose_tiles(plan(name)) and len(tried) == len(set(tried)) > 3
    for tiles in tried:
        sides = (tiles.xblock, tiles.rblock, tiles.yblock or 1, tiles.warps)
        assert all(
            side > 0 and side & (side - 1) == 0 for side in sides
        )  # Triton takes powers of two
        assert not tiles.persistent or tiles.rblock >= CASES[name].kernel.columns.value


@pytest.mark.parametrize("columns", [8000, 32000])
@pytest.mark.parametrize("compares", [False, True])
def test_long_rows_are_held_where_a_thread_has_room(columns, compares):
    """Positions that are compared with a label have eight bytes, which take twice the room."""
    (x,), (r,) = loops([index(8192)], "x"), loops([index(columns)], "r")
    place = atom(x) * columns + atom(r)
    read = load("in0", place, torch.float32)
    if compares:
        hit = scalar("eq", position(atom(r)), load("labels", atom(x), torch.int64))
        read = scalar("where", hit, read, const(0.0, torch.float32))
    value = scalar("sub", read, reduce("sum", read))
    kernel = Kernel((x,), (r,), (Store("out", place, value),), ("hits",))
    assert choose_tiles(Plan(simplify(kernel))).persistent == (columns == 8000 or not compares)
