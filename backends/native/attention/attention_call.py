"""A call of flex_attention, as far as it is known when it is compiled."""

from __future__ import annotations

import torch

from ....records import record
from .modification import Modification


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
