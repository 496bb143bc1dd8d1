"""Gradients by formulas of ours are torch's."""

from __future__ import annotations

import framejit
import pytest
import torch
from framejit.backends.autograd import own_gradients
from framejit.backends.autograd.own_gradients import CumulativeProduct


def values(*size):
    made = torch.rand(*size, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 0.2
    made.view(-1)[::7] = 0
    return made.requires_grad_()


@pytest.mark.parametrize(
    ("size", "dim"), [((1,), 0), ((2,), 0), ((3,), -1), ((2, 8), 1), ((3, 2, 13), -1), ((9, 2), 0)]
)
def test_of_a_cumulative_product(size, dim):
    assert torch.autograd.gradcheck(CumulativeProduct.apply, (values(*size), dim))
    assert torch.autograd.gradgradcheck(CumulativeProduct.apply, (values(*size), dim))


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "every other row"])
def test_a_traced_gradient_is_laid_out_as_torchs(dim, layout, monkeypatch):
    monkeypatch.setitem(own_gradients.FUNCTIONS, "cumprod", CumulativeProduct.apply)
    x = torch.rand(7, 6, 4)
    x = {"contiguous": x, "transposed": x.transpose(0, 1), "every other row": x[:, ::2]}[layout]
    x.requires_grad_()

    def transmitted(x):
        return x.cumprod(dim).exp()

    compiled = framejit.compile(transmitted, backend="native")
    got, expected = (torch.autograd.grad(f(x).sum(), x)[0] for f in (compiled, transmitted))
    torch.testing.assert_close(got, expected)
    assert got.stride() == expected.stride()
    details = compiled.framejit.explain().details()
    assert "cat" in details and "cumsum" not in details  # the recurrence, not torch's own formula


@pytest.mark.gpu
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_a_gpu_takes_few_steps(dim):
    def transmitted(x):
        return x.cumprod(dim).exp()

    compiled = framejit.compile(transmitted, backend="native")
    x = torch.rand(70, 64, device="cuda", requires_grad=True)
    got, expected = (torch.autograd.grad(f(x).sum(), x)[0] for f in (compiled, transmitted))
    torch.testing.assert_close(got, expected)
    assert got.stride() == expected.stride()
    assert "prod x" not in compiled.framejit.explain().details()  # torch's own formula takes many
