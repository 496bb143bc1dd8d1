"""Gradients of layer norms: torch's operator for many elements, kernels for few; both equal to
eager."""

from __future__ import annotations

import framejit
import pytest
import torch
from framejit.backends.native import decompositions
from torch.nn import functional as F

OPERATOR = "aten.native_layer_norm_backward.default"


def gradients(function, *shape):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(shape, generator=generator)
    weight, bias = torch.randn(2, shape[-1], generator=generator).unbind()
    leaves = [leaf.requires_grad_() for leaf in (x.transpose(0, 1), weight, bias)]
    return torch.autograd.grad(function(*leaves).sin().sum(), leaves)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("least", "calls"), [(1 << 20, 0), (1, 1)], ids=["few", "many"])
@pytest.mark.parametrize("with_bias", [True, False])
def test_equals_eager(least, calls, with_bias, dynamic, monkeypatch, reports):
    monkeypatch.setattr(decompositions, "LARGE", least)

    def f(x, weight, bias):
        y = F.layer_norm(x * 2, x.shape[-1:], weight, bias if with_bias else None)
        return y if with_bias else y * bias

    compiled = framejit.compile(f, backend="native", dynamic=dynamic)
    torch.testing.assert_close(
        gradients(compiled, 30, 6, 40), gradients(f, 30, 6, 40), rtol=1e-4, atol=1e-4
    )
    called = [name for report in reports for name in report.called]
    if not dynamic:
        assert called == [OPERATOR] * calls
