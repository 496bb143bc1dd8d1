"""Two loops as one, where the inner one is short: equal to eager, and only where stores are
contiguous."""

from __future__ import annotations

import framejit
import pytest
import torch
from framejit.backends.native.ir.index import atom, index
from framejit.backends.native.ir.program import Kernel, Store, loops
from framejit.backends.native.ir.scalar import load, position
from framejit.backends.native.printers.short_loops import join_short_loop


def rays(origin, direction, depth):
    points = origin[..., None, :] + direction[..., None, :] * depth[..., None]
    return points, points.sin(), (points * 2).cos() + torch.arange(points.shape[-1])


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("shape", [(70, 64, 3), (5, 2), (9, 300, 7), (40, 70, 8), (4, 9, 1)])
def test_equals_eager(shape, threads, dynamic, monkeypatch):
    generator = torch.Generator().manual_seed(0)
    *before, samples, width = shape
    origin, direction = torch.randn(2, *before, width, generator=generator).unbind()
    depth = torch.randn(*before, samples, generator=generator)
    monkeypatch.setattr(
        "framejit.backends.native.printers.c.loops.CFunction.uses_threads",
        property(lambda function: threads > 1),
    )
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    given = origin, direction, depth
    compiled = framejit.compile(rays, backend="native", dynamic=dynamic)
    torch.testing.assert_close(compiled(*given), rays(*given), check_stride=True)


def kernel(rows: int, width: int, stride: int) -> Kernel:
    """Rows so wide and so far apart get a number a row, and the number of the element."""
    x, y = loops([index(rows), index(width)], "x")
    value = load("in0", atom(x), torch.int64)
    place = atom(x) * stride + atom(y)
    return Kernel(
        (x, y),
        (),
        (Store("out", place, value), Store("other", place, position(atom(x) * width + atom(y)))),
        ("spread",),
    )


@pytest.mark.parametrize(
    ("rows", "width", "stride", "joins"),
    [(40, 3, 3, True), (40, 7, 7, True), (40, 8, 8, False), (40, 3, 4, False),
     (1 << 30, 3, 3, False)],
)  # fmt: skip
def test_only_short_loops_of_contiguous_stores_are_joined(rows, width, stride, joins):
    new, joint = join_short_loop(kernel(rows, width, stride))
    assert (joint is not None) == joins
    if joint is not None:
        assert new.outer == (joint.variable,) and joint.variable.size == rows * width
        assert {str(store.index) for store in new.stores} == {"joint"}
        assert str(new.stores[1].value.attr) == "joint"
        assert str(new.stores[0].value.attr.index) == "x0"
