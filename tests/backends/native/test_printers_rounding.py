"""Sums are rounded no worse than eager's, against float64, and zeros have eager's signs."""

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


@pytest.mark.parametrize("rows", [(24,), (64,), (65,), (300,), (3, 17), (9, 5), (20, 16)], ids=str)
def test_sums_of_columns(rows):
    """Eager adds up columns of at most 64 rows in several parts."""
    torch.manual_seed(0)
    xs = [torch.randn(*rows, 200) + 0.5 for _ in range(10)]

    def f(x):
        return (x * 2).sum(tuple(range(x.dim() - 1)))

    def error(function):
        return sum(((function(x) - f(x.double())) ** 2).sum() for x in xs).sqrt()

    assert error(framejit.compile(f, backend="native")) <= 1.2 * error(f)


LIMITS = {
    "relu": torch.relu,
    "clamp": lambda x: x.clamp(0, 1),
    "clamp max": lambda x: x.clamp(max=0),
    "clamp_min": lambda x: x.clamp_min(-0.0),
    "relu6": F.relu6,
    "hardtanh": lambda x: F.hardtanh(x, -1, 0),
    "clamp by a tensor": lambda x: x.clamp(min=torch.zeros_like(x)),
    "maximum": lambda x: torch.maximum(x, torch.zeros_like(x)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", LIMITS)
def test_signs_of_zeros_at_limits(name, dtype):
    x = torch.tensor([-0.0, 0.0, 1.0, -1.0, float("nan")] * 64, dtype=dtype)
    mine, yours = LIMITS[name](x), framejit.compile(LIMITS[name], backend="native")(x)
    assert torch.equal(mine.isnan(), yours.isnan())
    assert torch.equal(mine.nan_to_num(), yours.nan_to_num())
    assert torch.equal(mine.signbit() & (mine == 0), yours.signbit() & (yours == 0))


CONVERSIONS = {
    "half and back": lambda x: x.half().float() * 1.1,
    "bfloat16 and back": lambda x: (x * 3).bfloat16().float() + 1,
    "half, then more": lambda x: (x.half() * 2).float() - x,
    "type": lambda x: x.type(torch.bfloat16).type(torch.float32),
}


@pytest.mark.parametrize("name", CONVERSIONS)
def test_conversions_to_half_precision_that_the_program_asks_for_round(name):
    """Quantisation that is trained does that."""
    function, x = CONVERSIONS[name], torch.linspace(-3, 3, 1001)
    found = framejit.compile(function, backend="native")(x)
    torch.testing.assert_close(found, function(x), rtol=1e-6, atol=1e-6)
