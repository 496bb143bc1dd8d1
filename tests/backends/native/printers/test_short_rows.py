"""Rows of a few elements: which are computed in one iteration, and that nothing else changes."""

from __future__ import annotations

import framejit
import pytest
import torch
from framejit.backends.native.fuse.simplify import simplify
from framejit.backends.native.printers import short_rows
from framejit.backends.native.printers.short_rows import unroll_short_rows
from torch.nn import functional as F

from .. import kernels
from ..evaluate import evaluate

POINTS = torch.randn(50, 3, generator=torch.Generator().manual_seed(0))
COLOURS = torch.randn(9, 20, 4, generator=torch.Generator().manual_seed(1))
CASES = {  # function, its input, whether rows are computed in one iteration
    "a norm": (lambda x: F.normalize(x, dim=-1), POINTS, True),
    "softmax": (lambda x: torch.softmax(x, -1), COLOURS, True),
    "sums and elements": (lambda x: (x.exp() + 1, (x * 2).sum(-1), x.exp().sum(-1)), COLOURS, True),
    "a mean": (lambda x: x.double().mean(-1) + 1, POINTS, True),
    "a product": (lambda x: x.prod(-1) + 1, POINTS, True),
    "extremes": (lambda x: x.amax(-1) - x.amin(-1), COLOURS, True),
    "integers": (lambda x: (x * 100).long().sum(-1) + 1, POINTS, True),
    "any": (lambda x: (x > 1).any(-1), POINTS, True),
    "two loops": (lambda x: (x[:, :, :2].reshape(-1, 2, 2) ** 2).sum((1, 2)), COLOURS, True),
    "halves": (lambda x: x.sum(-1), POINTS.bfloat16(), True),
    "some of the columns": (lambda x: (x[..., :3].sigmoid() * 2).sum(-1), COLOURS, True),
    "a position": (lambda x: x.argmax(-1), POINTS, False),
    "five elements": (lambda x: x.view(30, 5).exp().sum(-1), POINTS, False),
    "few rows": (lambda x: x[:5].exp().sum(-1), POINTS, False),
    "one row": (lambda x: x[0].exp().sum(), POINTS, False),
    "rows side by side": (lambda x: x.t().exp().sum(0), POINTS.t().contiguous(), False),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_equals_eager(name, dynamic, reports):
    function, x, unrolled = CASES[name]
    compiled = framejit.compile(function, backend="native", dynamic=dynamic)
    torch.testing.assert_close(compiled(x), function(x), check_stride=True)
    if not dynamic:
        texts = "".join(kernel.text for kernel in reports[0].kernels)
        assert (" r0" not in texts) == unrolled, texts


@pytest.mark.parametrize(
    "row", [(-0.0, -0.0, -0.0), (float("nan"), 1, 2), (float("inf"), -float("inf"), 0)], ids=str
)
def test_signs_of_zero_and_nan(row):
    x = torch.tensor([row] * 20)

    def function(x):
        return x.sum(-1), x.amax(-1), x.amin(-1), x.prod(-1)

    got = framejit.compile(function, backend="native")(x)
    for one, other in zip(got, function(x), strict=True):
        torch.testing.assert_close(one, other, equal_nan=True, rtol=0, atol=0)
        assert torch.equal(one.signbit(), other.signbit()) or other.isnan().all()


def test_unrolled_kernels_compute_the_same(monkeypatch):
    """On memory, by the reference interpreter; rows of any length."""
    for limit in ("LONGEST", "MOST_NODES"):
        monkeypatch.setattr(short_rows, limit, 400)
    monkeypatch.setattr(short_rows, "FEWEST_ROWS", 1)
    unrolled = set()
    for name, case in kernels.all_cases().items():
        kernel = simplify(case.kernel)
        other = unroll_short_rows(kernel)
        if other is not kernel:
            want, got = (
                {buffer: tensor.clone() for buffer, tensor in case.memory.items()} for _ in range(2)
            )
            evaluate(kernel, want, case.sizes)
            evaluate(other, got, case.sizes)
            for buffer in want:
                assert kernels.told_difference(name, got[buffer], want[buffer]) is None
            unrolled.add(name.partition("-")[0].partition(" ")[0])
    assert unrolled >= {"min", "max", "prod", "sum", "any"}
