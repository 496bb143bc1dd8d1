"""Conversions of float8 on the CPU: every number, to every dtype. Other operators on float8 are
left to torch. Comparisons of half precision with numbers."""

from __future__ import annotations

import framejit
import pytest
import torch

FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2)
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.bool)


def every_number(dtype):
    return torch.arange(256, dtype=torch.uint8).view(dtype).reshape(8, 32)


@pytest.mark.parametrize("target", DTYPES, ids=str)
@pytest.mark.parametrize("source", FLOAT8, ids=str)
def test_conversion_from_float8(source, target, reports):
    def convert(x):
        return x.t().to(target)

    x = every_number(source)
    compiled, expected = framejit.compile(convert, backend="native")(x), convert(x)
    torch.testing.assert_close(
        compiled, expected, rtol=0, atol=0, equal_nan=True, check_stride=True
    )
    numbers = ~expected.isnan()
    assert torch.equal(compiled.signbit()[numbers], expected.signbit()[numbers])
    (report,) = reports
    assert report.kernels


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.clone(),
        lambda x: torch.cat([x, x]),
        lambda x: x.view(torch.uint8) + 1,
        lambda x: (x.float() * 2).to(x.dtype),
        lambda x: x.to(torch.float8_e5m2).float(),
    ],
    ids="copy concatenation bits to_float8 between".split(),
)
@pytest.mark.parametrize("dtype", FLOAT8, ids=str)
def test_other_operators(dtype, function):
    x = every_number(dtype)
    found, expected = framejit.compile(function, backend="native")(x), function(x)
    assert found.dtype == expected.dtype
    torch.testing.assert_close(found.float(), expected.float(), rtol=0, atol=0, equal_nan=True)


def test_a_layer_whose_weight_is_float8():
    def layer(x, weight, scale):
        return torch.nn.functional.linear(x, weight.to(x.dtype) * scale).relu()

    weight = torch.randn(16, 8).to(torch.float8_e4m3fn)
    x, scale = torch.randn(4, 8), torch.rand(16, 1)
    compiled = framejit.compile(layer, backend="native")
    torch.testing.assert_close(compiled(x, weight, scale), layer(x, weight, scale))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_a_number_is_rounded_as_the_elements_that_it_is_compared_with(dtype):
    def compare(x):
        return x == 0.1, x > 0.1, x <= 0.3, torch.where(x > 0.3, x, -x)

    x = torch.tensor([0.1, 0.3, 1.0], dtype=dtype)
    results = framejit.compile(compare, backend="native")(x)
    for got, expected in zip(results, compare(x), strict=True):
        assert torch.equal(got, expected)


def test_a_number_that_a_dtype_cannot_hold_is_wrapped():
    def compare(small, unsigned):
        quotients = [torch.div(small, 300, rounding_mode=mode) for mode in ("trunc", "floor")]
        return unsigned > -1, unsigned <= 300, unsigned.clamp(min=-1), small == 300, *quotients

    inputs = torch.arange(-120, 120, dtype=torch.int8), torch.arange(250, dtype=torch.uint8)
    for found, expected in zip(
        framejit.compile(compare, backend="native")(*inputs), compare(*inputs), strict=True
    ):
        assert found.dtype == expected.dtype
        assert torch.equal(found, expected)
