"""A call of attention as far as it is known when it is compiled, and the tiles in which its scores
are computed."""

from __future__ import annotations

import torch

from ....records import record
from ..printers.tiles import power_of_two
from .modification import Modification

FORWARD, BACKWARD_QUERIES, BACKWARD_KEYS = "forward", "backward_queries", "backward_keys"


@record
class AttentionCall:
    """What is known of a call of flex_attention when it is compiled.

    width, depth: elements of a query, and of a value. group: heads of queries for each head of
    keys. query_side, key_side: of the blocks of its BlockMask. has_full_blocks: whether that tells
    which blocks need no mask. slope: the derivative of `score`; None without gradients.
    """

    score: Modification
    mask: Modification
    slope: Modification | None
    dtype: torch.dtype
    width: int
    depth: int
    group: int
    scale: float
    query_side: int
    key_side: int
    has_full_blocks: bool

    @property
    def captured_dtypes(self) -> dict[str, torch.dtype]:
        """Dtypes of the captured tensors' buffers that are read, by name."""
        found: dict[str, torch.dtype] = {}
        for one in (self.score, self.mask, self.slope):
            if one is not None:
                names = [one.captured[number] for number in one.read]
                found |= {name: one.buffers[name].dtype for name in names}
        return found


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
    rows, columns = (
        min(found.rows, attention.query_side),
        min(found.columns, attention.key_side),
    )
    return TileSides(rows, columns, found.warps, found.stages)


def pad_width(width: int) -> int:
    """The side of a tile that holds so many elements."""
    return max(16, power_of_two(width))
