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


def leaf_of_a_result(x, w):
    y = x * 3 * w
    leaf = y.detach().requires_grad_()
    return x * 2 * leaf, y


def leaf_of_an_input(x, w):
    return x.sin() * x.detach().requires_grad_() * w


def leaf_of_a_copy(x, w):
    y = x * 3 * w
    return x * 2 * y.detach().clone().requires_grad_(), y


@pytest.mark.parametrize("function", [leaf_of_a_result, leaf_of_an_input, leaf_of_a_copy])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_gradients_end_at_leaves_that_are_made_inside(function, backend):
    found = []
    for run in (function, framejit.compile(function, backend=backend)):
        x, w = (torch.arange(1.0, 4.0).requires_grad_() for _ in range(2))
        results = run(x, w)
        ends = results if isinstance(results, tuple) else (results,)
        sum(end.sum() * (place + 1) for place, end in enumerate(ends)).backward()
        found.append((x.grad, w.grad))
    torch.testing.assert_close(*found)
