"""Normalizations: results that are empty, and inputs of equal numbers."""

from __future__ import annotations

import framejit
import pytest
import torch
from torch.distributed.tensor import DTensor, Replicate

from ....frontend.opdb.wrapped_samples import mesh


@pytest.mark.usefixtures("process_group")
def test_statistics_that_inference_does_not_save():
    def normalize(x, mean, var):
        return torch.native_batch_norm(x, None, None, mean, var, False, 0.1, 1e-5)

    given = [
        DTensor.from_local(one, mesh(), [Replicate()])
        for one in (torch.randn(3, 2, 4), torch.zeros(2), torch.ones(2))
    ]
    for mine, other in zip(
        framejit.compile(normalize, backend="native")(*given), normalize(*given), strict=True
    ):
        torch.testing.assert_close(mine.to_local(), other.to_local())


@pytest.mark.gpu
def test_statistics_of_inference_on_a_gpu():
    def normalize(x, mean, var):
        return torch.native_batch_norm(x, None, None, mean, var, False, 0.1, 1e-5)

    given = [value.cuda() for value in (torch.randn(3, 2, 4), torch.randn(2), torch.rand(2) + 1)]
    compiled = framejit.compile(normalize, backend="native")
    torch.testing.assert_close(compiled(*given), normalize(*given))


NORMS = {
    "layer": lambda x: torch.nn.functional.layer_norm(x, x.shape[2:]),
    "group": lambda x: torch.nn.functional.group_norm(x, 2),
    "instance": torch.nn.functional.instance_norm,
    "batch": lambda x: torch.nn.functional.batch_norm(x, None, None, training=True),
}


@pytest.mark.parametrize("norm", NORMS)
def test_equal_numbers_are_their_own_mean(norm):
    """Distances to a mean that is rounded would be multiplied by 1 / sqrt(eps)."""
    x = torch.full((2, 4, 32, 32), 0.7)
    result = framejit.compile(NORMS[norm], backend="native")(x)
    torch.testing.assert_close(result, torch.zeros_like(x), rtol=0, atol=1e-5)
