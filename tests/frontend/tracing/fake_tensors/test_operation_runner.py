"""Operators of the program are never run for real during capture."""

from __future__ import annotations

import framejit
import pytest
import torch

RUNS = []


@torch.library.custom_op("framejit_tests::bump_", mutates_args=("x",))
def bump(x: torch.Tensor) -> None:
    RUNS.append(x.dtype)
    x.fill_(1)


@bump.register_fake
def bump_fake(x):
    return None


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool])
def test_operators_that_write(dtype):
    """torch's own are tried on small tensors of dtypes that they might refuse."""

    def calculate(x):
        y = x.to(dtype, copy=True)
        torch.ops.framejit_tests.bump_(y)
        return y * 2

    handle, x = framejit.compile(calculate), torch.zeros(3)
    RUNS.clear()
    torch.testing.assert_close(handle(x), handle(x))
    assert len(RUNS) == 2
