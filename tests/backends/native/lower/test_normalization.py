"""Results of normalizations that are empty."""

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
