"""The kernels of attention, and the tiles in which each computes the matrix of scores."""

from __future__ import annotations

from dataclasses import replace

import torch

from ....records import record
from ..printers.tiles import power_of_two
from .attention_call import AttentionCall

FORWARD, BACKWARD_QUERIES, BACKWARD_KEYS = "forward", "backward_queries", "backward_keys"


@record
class TileSides:
    """Queries and keys of a tile of scores; warps; how many iterations are under way."""

    rows: int
    columns: int
    warps: int
    stages: int


# By kernel: for at most 64, 128 and 256 elements a query, in half precision and in float32. Those
# for half precision are the fastest of a dozen on an H200, for 4096 queries with and without a
# causal mask.
SIDES = {
    FORWARD: (
        (TileSides(64, 64, 4, 3), TileSides(64, 64, 4, 3), TileSides(64, 32, 4, 2)),
        (TileSides(64, 32, 4, 3), TileSides(32, 32, 4, 2), TileSides(16, 16, 4, 1)),
    ),
    BACKWARD_QUERIES: (
        (TileSides(64, 64, 4, 3), TileSides(64, 64, 4, 2), TileSides(32, 32, 4, 1)),
        (TileSides(32, 32, 4, 2), TileSides(16, 32, 4, 1), TileSides(16, 16, 4, 1)),
    ),
    BACKWARD_KEYS: (
        (TileSides(64, 64, 4, 3), TileSides(64, 64, 4, 2), TileSides(32, 32, 4, 1)),
        (TileSides(32, 32, 4, 2), TileSides(32, 16, 4, 1), TileSides(16, 16, 4, 1)),
    ),
}


def choose_sides(kernel: str, attention: AttentionCall) -> TileSides:
    """The tiles of a kernel: none is longer than a block, whose sides are powers of two."""
    width = pad_width(max(attention.width, attention.depth))
    column = 0 if width <= 64 else 1 if width == 128 else 2
    found = SIDES[kernel][attention.dtype == torch.float32][column]
    rows = min(found.rows, attention.query_side)
    return replace(found, rows=rows, columns=min(found.columns, attention.key_side))


def pad_width(width: int) -> int:
    """The side of a tile that holds so many elements."""
    return max(16, power_of_two(width))
