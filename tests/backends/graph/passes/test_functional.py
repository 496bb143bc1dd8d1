"""Functional graphs of programs in inference mode."""

from __future__ import annotations

import framejit
import pytest
import torch
from torch.nn import functional as F

COMPOSITE = {
    "relu6": lambda x: F.relu6(x, inplace=True),
    "selu": lambda x: F.selu(x, inplace=True),
    "dropout": lambda x: F.dropout(x, 0.5, True, inplace=True),
    "feature dropout": lambda x: F.dropout2d(x, 0.5, True, inplace=True),
    "square": lambda x: x.square_(),
    "clip": lambda x: x.clip_(0.2, 0.8),
    "of a view": lambda x: x[1:].subtract_(1),
    "of a transposed one": lambda x: x.transpose(0, 1).multiply_(2),
}


@pytest.mark.parametrize("backend", ["native", "aot_eager", "torchscript"])
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", COMPOSITE)
@pytest.mark.sweep(3)
def test_composite_operators_that_write_in_inference_mode(name, dynamic, backend):
    def f(x):
        return COMPOSITE[name](x) * 2

    compiled = framejit.compile(f, backend=backend, dynamic=dynamic, fullgraph=True)
    with torch.inference_mode():
        for x in torch.rand(4, 3, 4, 5), torch.rand(9, 3, 4, 5)[2:]:
            mine, torchs = x.clone(), x.clone()
            torch.manual_seed(0)
            want = f(torchs)
            torch.manual_seed(0)
            torch.testing.assert_close(compiled(mine), want)
            torch.testing.assert_close(mine, torchs)
