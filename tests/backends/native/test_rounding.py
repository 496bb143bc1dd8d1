"""Sums are rounded no worse than eager's, against float64."""

import framejit
import pytest
import torch
from torch.nn import functional as F


@pytest.mark.parametrize("shape", [(128, 256), (512, 64), (8, 128, 768)])
def test_gradients_of_a_layer_norm(shape):
    """Those of weight and bias are sums over all rows, one column beside the other."""
    torch.manual_seed(0)
    x, weight, bias, tangent = (
        torch.randn(*shape),
        torch.randn(shape[-1]),
        torch.randn(shape[-1]),
        torch.randn(*shape),
    )

    def gradients(function, dtype):
        given = [tensor.to(dtype, copy=True).requires_grad_() for tensor in (x, weight, bias)]
        return torch.autograd.grad(function(*given), given, tangent.to(dtype))

    def f(x, weight, bias):
        return F.layer_norm(x, x.shape[-1:], weight, bias)

    runs = (
        (f, torch.float64),
        (f, torch.float32),
        (framejit.compile(f, backend="native"), torch.float32),
    )
    exact, eager, compiled = (gradients(*run)[1:] for run in runs)
    for reference, mine, yours in zip(exact, eager, compiled, strict=True):
        assert (yours.double() - reference).abs().max() <= 1.5 * (
            mine.double() - reference
        ).abs().max()
