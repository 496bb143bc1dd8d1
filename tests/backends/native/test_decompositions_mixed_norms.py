"""Norms of half precision with parameters in float32: native is as near to float64 as eager."""

from __future__ import annotations

import framejit
import pytest
import torch
import torch.nn.functional as F

NORMS = {
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (x.shape[-1],), w, b), (64, 128)),
    "layer_norm without bias": (
        lambda x, w, b: F.layer_norm(x, (x.shape[-1],), w, None) + 0 * b,
        (64, 128),
    ),
    "layer_norm and more": (
        lambda x, w, b: F.layer_norm(x, (x.shape[-1],), w, b).tanh().float(),
        (64, 128),
    ),
    "group_norm": (lambda x, w, b: F.group_norm(x, 4, w, b), (8, 128, 16)),
}


def results_and_gradients(function, given):
    leaves = [tensor.detach().clone().requires_grad_() for tensor in given]
    result = function(*leaves)
    torch.manual_seed(3)
    return result.detach(), *torch.autograd.grad(
        result, leaves, torch.randn(result.shape).to(result.dtype)
    )


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16))
@pytest.mark.parametrize("name", NORMS)
def test_as_exact_as_eager(name, dtype):
    function, shape = NORMS[name]
    torch.manual_seed(0)
    given = (torch.randn(shape) * 3 + 2).to(dtype), torch.randn(128), torch.randn(128)
    exact = results_and_gradients(function, [tensor.double() for tensor in given])
    eager = results_and_gradients(function, given)
    native = results_and_gradients(framejit.compile(function, backend="native"), given)
    for number, (one, two, three) in enumerate(zip(exact, eager, native, strict=True)):
        assert two.dtype == three.dtype
        distances = [(other.double() - one).abs().max() for other in (two, three)]
        assert distances[1] <= 1.15 * distances[0], (number, distances)
        means = [(other.double() - one).abs().mean() for other in (two, three)]
        assert means[1] <= 1.05 * means[0], (number, means)


def test_without_gradients():
    function, shape = NORMS["layer_norm"]
    given = torch.randn(shape).bfloat16(), torch.randn(128), torch.randn(128)
    with torch.no_grad():
        exact, eager = function(*[tensor.double() for tensor in given]), function(*given)
        native = framejit.compile(function, backend="native")(*given)
    assert native.dtype == eager.dtype
    assert (native.double() - exact).abs().max() <= (eager.double() - exact).abs().max()
