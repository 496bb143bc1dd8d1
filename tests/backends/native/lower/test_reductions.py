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
