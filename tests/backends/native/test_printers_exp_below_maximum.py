"""Exponentials of a row's elements, shifted by its largest: masked elements are as fast as others,
so they do not reach the slow path of the vector library."""

from __future__ import annotations

import framejit
import pytest
import torch

ROW = torch.linspace(-3, 3, 64)
ROWS = {
    "masked": torch.cat([ROW, torch.full((30,), -1e9)]),
    "infinitely masked": torch.cat([ROW, torch.full((30,), -torch.inf)]),
    "all masked": torch.full((40,), -torch.inf),
    "far below": torch.linspace(-800, 0, 640),
    "not a number": torch.cat([ROW, torch.tensor([torch.nan])]),
    "infinite": torch.cat([ROW, torch.tensor([torch.inf, torch.inf])]),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("row", ROWS)
def test_equals_eager(row, dtype, reports):
    x = ROWS[row].to(dtype).expand(4, -1).contiguous()

    def function(x):
        return x.softmax(-1), x.logsumexp(-1)

    torch.testing.assert_close(
        framejit.compile(function, backend="native")(x), function(x), equal_nan=True
    )
    assert "exp_below" in "".join(record.text for record in reports[0].kernels)
