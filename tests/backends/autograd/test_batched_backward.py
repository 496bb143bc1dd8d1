"""Several gradients at once: `is_grads_batched`, `jacobian(vectorize=True)` and what is built on
them, through compiled graphs."""

from __future__ import annotations

import framejit
import pytest
import torch
from torch.autograd.functional import hessian, jacobian

layer = torch.nn.Linear(3, 3)


def elementwise(x):
    return (x.sin() * x.exp()).cumsum(0)


def of_a_module(x):
    return torch.tanh(layer(x)) * x


def two_results(x):
    return torch.cat([x.cos(), (x * 2).t().contiguous().t()], -1)


def transposed(x):
    return (x.reshape(1, 3) * torch.ones(3, 3)).t()[0]


def batched(call, x):
    y = call(x)
    return torch.autograd.grad(
        y, x, torch.eye(y.numel()).reshape(-1, *y.shape), is_grads_batched=True
    )[0]


def batched_twice(call, x):
    y = call(x)
    first = torch.autograd.grad(
        y, x, torch.eye(y.numel()).reshape(-1, *y.shape), is_grads_batched=True, retain_graph=True
    )[0]
    return first, torch.autograd.grad(y, x, torch.ones_like(y))[0]


WAYS = {
    "batched": batched, "batched and not": batched_twice, "jacobian": lambda call, x: jacobian(call, x, vectorize=True),
    "forward": lambda call, x: jacobian(call, x, vectorize=True, strategy="forward-mode"),
    "hessian": lambda call, x: hessian(lambda t: call(t).sum(), x, vectorize=True),
    "without batches": jacobian,
}  # fmt: skip


@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager"])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("call", [elementwise, of_a_module, two_results, transposed])
def test_gradients_in_batches(call, way, backend):
    handle = framejit.compile(call, backend=backend)
    x = torch.randn(3, requires_grad=True)
    expected = way(call, x)
    for _ in range(2):
        torch.testing.assert_close(way(handle, x), expected)
    assert handle.framejit.compiles > 0
