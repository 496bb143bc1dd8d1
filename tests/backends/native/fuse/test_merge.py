"""Kernels that are not merged, since one would jump through memory in the other's order."""

from __future__ import annotations

import framejit
import pytest
import torch


def both_sums(g, v):
    return (g * v[None, :]).sum(1) + (g * v[:, None]).sum(0)


def one_sum(g, v):
    return (g * v[None, :]).sum(1) + (g * v[:, None]).sum(1)


# by function: the kernels
CASES = {both_sums: 2, one_sum: 1}


@pytest.mark.parametrize("function", CASES, ids=lambda function: function.__name__)
def test_sums_along_rows_and_along_columns(function, reports):
    torch.manual_seed(0)
    g, v = torch.randn(96, 96), torch.randn(96)
    torch.testing.assert_close(
        framejit.compile(function, backend="native")(g, v), function(g, v), rtol=1e-4, atol=1e-4
    )
    assert len(reports[0].kernels) == CASES[function], reports[0].host
    for record in reports[0].kernels:  # the column's number runs in the innermost loop
        innermost = record.text.split("#pragma omp simd")[-1]
        assert "96*r0 + x0" not in innermost, record.text
