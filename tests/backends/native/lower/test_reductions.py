"""Reductions of numbers whose squares are beyond their type."""

from __future__ import annotations

import framejit
import pytest
import torch


@pytest.mark.parametrize("order", [1, 2, torch.inf])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_norm_of_a_single_number_is_its_absolute_value(dtype, order):
    def norms(x):
        return (
            torch.linalg.vector_norm(x, order, -1),
            x[0].norm(order),
            (x / x.norm(order, -1, True)),
        )

    x = torch.tensor([1e-30, -3e25, 0.0, -torch.inf, 2.0], dtype=dtype)[:, None]
    torch.testing.assert_close(
        framejit.compile(norms, backend="native")(x), norms(x), equal_nan=True, atol=0, rtol=1e-5
    )


SPREADS = {
    "rows": lambda x: (x.std(1), x.var(1)),
    "columns": lambda x: (x.std(0, keepdim=True), x.var(0, correction=0)),
    "all": lambda x: (x.std(), x.var()),
    "with means": lambda x: (*torch.std_mean(x, 1), *torch.var_mean(x, 0)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("scale", [1e-23, 1e20, 1e37])
@pytest.mark.parametrize("spread", SPREADS)
def test_squares_of_distances_are_neither_too_large_nor_too_small(spread, scale, dtype):
    """torch computes variances in float64 on the CPU."""
    x = (torch.randn(6, 40, generator=torch.Generator().manual_seed(0)) * scale).to(dtype)
    compiled = framejit.compile(SPREADS[spread], backend="native")
    for mine, wanted in zip(compiled(x), SPREADS[spread](x), strict=True):
        torch.testing.assert_close(
            mine, wanted, rtol=1.6e-2 if dtype.itemsize == 2 else 1e-5, atol=0
        )
