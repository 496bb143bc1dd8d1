"""Graphs whose results share memory among their own elements: gradients as in eager."""

from __future__ import annotations

import framejit
import pytest
import torch


def unfolded(x):
    y = torch.cat([x, x])
    with torch.no_grad():
        y.index_fill_(0, torch.tensor([1]), 3)
    return y.unfold(-1, 2, 1)


def expanded(x):
    y = x * 2
    with torch.no_grad():
        y.mul_(3)
    return y[:1].expand(4)


def windows(x):
    y = x * 2
    with torch.no_grad():
        y[0] = 1
    return y.as_strided((2, x.shape[0] - 1), (1, 1))


def apart(x):
    y = x * 2
    with torch.no_grad():
        y[0] = 1
    return y.unfold(-1, 2, 2)


@pytest.mark.parametrize("function", [unfolded, expanded, windows, apart])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("dynamic", [None, True])
def test_results_that_share_elements(function, backend, dynamic):
    compiled = framejit.compile(function, backend=backend, dynamic=dynamic)
    for size in (4, 6, 8):
        found = []
        for callee in (function, compiled):
            x = torch.arange(float(size)).requires_grad_()
            result = callee(x)
            result.backward(torch.arange(1.0, result.numel() + 1).view(result.shape))
            found.append((result.detach(), x.grad, result.stride()))
        (wanted, gradient, strides), (got, mine, ours) = found
        assert torch.equal(got, wanted) and torch.equal(mine, gradient) and ours == strides
