"""A producer's values where its consumer reads them."""

from __future__ import annotations

import torch
from framejit.backends.native.fuse.inline import inline
from framejit.backends.native.ir.index import atom, index
from framejit.backends.native.ir.program import Kernel, Store, loops, reads
from framejit.backends.native.ir.scalar import load, position, scalar


def test_a_load_whose_mask_has_a_cast():
    (x,) = loops([index(8)], "p")
    relu = scalar("maximum", load("x", atom(x), torch.float32), 0)
    producer = Kernel((x,), (), (Store("relu", atom(x), relu),), ())
    mask = scalar("lt", position(atom(x), torch.int32), 5)
    read = load("relu", atom(x), torch.float32, mask=mask)
    consumer = Kernel((x,), (), (Store("out", atom(x), read + 1),), ())
    joined = inline(producer, consumer, needed=True)
    assert joined is not None
    assert reads(joined) == {"x"}
