"""Products and convolutions in half precision, computed in float32, on a CPU said to emulate them.
The numbers are whole and so small that all sums are exact."""

from __future__ import annotations

import framejit
import pytest
import torch
from framejit.backends.native.lower import half_products
from torch.nn import functional as F

HALVES = (torch.bfloat16, torch.float16)


@pytest.fixture(autouse=True)
def emulated(monkeypatch):
    monkeypatch.setattr(half_products, "emulated_dtypes", lambda: frozenset(HALVES))
    monkeypatch.setattr(half_products, "WORTH", dict.fromkeys(HALVES, 0))


def whole(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-2, 3, shape, generator=generator).float()


def shared_operand(x, v, w):
    return x @ v, x @ w


def attention_scores(q, k):
    return (q @ k.transpose(-1, -2)).relu()


def scaled_sum(c, a, b):
    return torch.addmm(c, a, b, beta=2, alpha=3)


def product_alone(c, a, b):
    """The matrix that is added holds nan, which beta=0 ignores."""
    return torch.addmm(c / 0 - c / 0, a, b, beta=0)


def batched_sum(c, a, b):
    return torch.baddbmm(c, a, b, beta=0.5, alpha=2)


def strided(x, w, b):
    return F.conv2d(x, w, b, stride=2, padding=1).relu()


def grouped(x, w):
    return F.conv2d(x, w, groups=2)


def transposed(x, w, b):
    return F.conv_transpose2d(x, w, b, stride=2)


IMAGE, FILTERS = whole(2, 4, 7, 9), whole(6, 4, 3, 3, seed=1)
CASES = {  # function, inputs
    "product": (torch.mm, (whole(16, 8), whole(8, 12, seed=1))),
    "layer": (F.linear, (whole(2, 3, 8), whole(12, 8, seed=1), whole(12, seed=2))),
    "transposed operands": (lambda d, h: d.t() @ h.t(), (whole(16, 12), whole(8, 16))),
    "part of a matrix": (lambda x, w: x[:, 1:9] @ w, (whole(16, 16), whole(8, 8))),
    "expanded": (lambda x, w: x.expand(3, 4, 8) @ w, (whole(1, 4, 8), whole(3, 8, 5))),
    "shared operand": (shared_operand, (whole(16, 8), whole(8, 4), whole(8, 4, seed=1))),
    "batches": (attention_scores, (whole(2, 3, 5, 8), whole(2, 3, 7, 8, seed=1))),
    "scaled sum": (scaled_sum, (whole(16), whole(4, 8), whole(8, 16, seed=1))),
    "product alone": (product_alone, (whole(16), whole(4, 8), whole(8, 16, seed=1))),
    "batched sum": (batched_sum, (whole(2, 1, 6), whole(2, 5, 8), whole(2, 8, 6))),
    "convolution": (strided, (IMAGE, FILTERS, whole(6, seed=2))),
    "channels last": (
        strided,
        (IMAGE.contiguous(memory_format=torch.channels_last), FILTERS, whole(6)),
    ),
    "grouped convolution": (grouped, (IMAGE, whole(6, 2, 3, 3))),
    "one dimension": (F.conv1d, (whole(2, 4, 9), whole(6, 4, 3))),
    "transposed convolution": (transposed, (whole(2, 6, 4, 5), FILTERS, whole(4, seed=2))),
}


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.sweep(3)
def test_equals_eager(name, dtype, reports):
    function, inputs = CASES[name]
    inputs = [tensor.to(dtype) for tensor in inputs]
    compiled = framejit.compile(function, backend="native")
    torch.testing.assert_close(
        compiled(*inputs), function(*inputs), rtol=0, atol=0, check_stride=True
    )
    (report,) = reports
    assert report.kernels  # which convert
    assert report.called


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("name", ["layer", "batches", "convolution", "transposed convolution"])
def test_gradients(name, dtype, reports):
    function, inputs = CASES[name]

    def gradients(call):
        leaves = [tensor.to(dtype).requires_grad_() for tensor in inputs]
        call(*leaves).sum().backward()
        return [leaf.grad for leaf in leaves]

    compiled = framejit.compile(function, backend="native")
    for own, eager in zip(gradients(compiled), gradients(function), strict=True):
        torch.testing.assert_close(own, eager, rtol=0, atol=0, check_stride=True)
    assert all(report.kernels for report in reports)


def test_a_number_of_rows_that_varies(reports):
    compiled = framejit.compile(F.linear, backend="native", dynamic=True)
    weight, bias = (tensor.bfloat16() for tensor in (whole(12, 8), whole(12, seed=2)))
    for rows in (16, 19, 24):
        x = whole(rows, 8, seed=rows).bfloat16()
        torch.testing.assert_close(compiled(x, weight, bias), F.linear(x, weight, bias))
    (report,) = reports
    assert report.kernels


@pytest.mark.parametrize(
    ("rows", "dtype", "converted"),
    [
        (1, torch.bfloat16, False),
        (64, torch.bfloat16, True),
        (1, torch.float16, False),
        (8, torch.float16, True),
        (64, torch.float32, False),
    ],
)
def test_which_products_are_converted(rows, dtype, converted, reports, monkeypatch):
    """Those in which each converted element is multiplied often enough."""
    monkeypatch.setattr(half_products, "WORTH", {torch.bfloat16: 5, torch.float16: 2})
    compiled = framejit.compile(torch.mm, backend="native")
    compiled(whole(rows, 64).to(dtype), whole(64, 64).to(dtype))
    (report,) = reports
    assert bool(report.kernels) is converted


def test_a_processor_that_multiplies_halves(reports, monkeypatch):
    monkeypatch.setattr(half_products, "emulated_dtypes", frozenset)
    compiled = framejit.compile(torch.mm, backend="native")
    compiled(whole(64, 64).bfloat16(), whole(64, 64).bfloat16())
    (report,) = reports
    assert not report.kernels
