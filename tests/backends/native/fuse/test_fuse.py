"""Which kernels are merged on a GPU. (The tests run them on the CPU.)"""

from __future__ import annotations

import framejit
import pytest
import torch
from framejit.backends.native.fuse.fuse import Fusion


@pytest.fixture
def as_on_a_gpu(monkeypatch):
    monkeypatch.setattr(Fusion, "device_of", lambda self, step: torch.device("cuda"))


def test_elements_that_need_sums_of_long_columns_are_computed_apart(as_on_a_gpu, reports):
    def f(x, gradient):
        variance, mean = torch.var_mean(x, (0, 2, 3), keepdim=True)
        result = torch.relu((x - mean) * (variance + 1).rsqrt())
        other = torch.exp(gradient)
        sums = other.sum((0, 2, 3), keepdim=True), (other * x).sum((0, 2, 3), keepdim=True)
        return result, torch.tanh(other - sums[0] - x * sums[1])

    pair = (torch.randn(2, 8, 32, 32).to(memory_format=torch.channels_last) for _ in "xy")
    x, gradient = pair
    got = framejit.compile(f, backend="native")(x, gradient)
    torch.testing.assert_close(got, f(x, gradient), rtol=1e-4, atol=1e-4)
    kernels = [set(kernel.ops) for kernel in reports[0].kernels]
    assert not any({"var_mean.correction", "relu"} <= ops for ops in kernels)
    assert not any({"sum.dim_IntList", "tanh"} <= ops for ops in kernels)
    sums = [kernel.ops for kernel in reports[0].kernels if "sum.dim_IntList" in kernel.ops]
    assert [ops.count("sum.dim_IntList") for ops in sums] == [2]  # with what both are made of
    assert "exp" in sums[0]
