"""Products that are padded: here on the CPU, with numbers small enough that sums are exact."""

from __future__ import annotations

import framejit
import pytest
import torch
from framejit.backends.native.lower import padded_products
from torch.nn import functional as F


@pytest.fixture(autouse=True)
def padded_on_the_cpu(monkeypatch):
    monkeypatch.setattr(padded_products, "DEVICES", ("cpu",))
    monkeypatch.setattr(padded_products, "WORTH", 0)


def whole(*shape, seed=0, dtype=torch.bfloat16):
    """Small whole numbers: their products and sums are exact."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-2, 3, shape, generator=generator).to(dtype)


def gradients_of_layer(d, w, x):
    """Of a layer's input and weight: both read `d`, which a kernel writes padded."""
    d = (d * 2).relu()
    return d @ w, d.t() @ x


def below_largest(d):
    return d - d.amax(-1, keepdim=True)


def gradients_behind_largest(d, w, x):
    d = below_largest(d)
    return d @ w, d.t() @ x


def read_by_others(d, w):
    d = below_largest(d)
    return d @ w, d.sum(0), d[:, 2:9].cos()


def product_and_operand(d, w):
    d = below_largest(d)
    return d @ w, d


CASES = {  # function, inputs, kernels: copies that pad, and the one that cuts
    "columns": (torch.mm, (whole(16, 8), whole(8, 13, seed=1)), 2),
    "terms": (torch.mm, (whole(16, 13), whole(13, 8, seed=1)), 2),
    "terms and columns": (torch.mm, (whole(16, 11), whole(11, 13, seed=1)), 3),
    "a layer": (F.linear, (whole(16, 8), whole(13, 8, seed=1)), 2),
    "a layer with a bias": (F.linear, (whole(16, 8), whole(13, 8), whole(13, seed=2)), 3),
    "rows of a transposed operand": (lambda d, h: d.t() @ h, (whole(16, 13), whole(16, 8)), 2),
    "transposed operands": (lambda d, h: d.t() @ h.t(), (whole(16, 13), whole(8, 16)), 2),
    "rows and columns": (lambda d, h: d.t() @ h, (whole(16, 13), whole(16, 11)), 3),
    "a part of a matrix": (lambda x, w: x[:, 1:14] @ w, (whole(16, 16), whole(13, 8)), 2),
    "half precision": (torch.mm, (whole(16, 8).half(), whole(8, 13).half()), 2),
    "aligned": (torch.mm, (whole(16, 8), whole(8, 16)), 0),
    "only the rows of the result": (torch.mm, (whole(13, 8), whole(8, 16)), 0),
    "single precision": (torch.mm, (whole(16, 13).float(), whole(13, 8).float()), 0),
    "a matrix is added": (torch.addmm, (whole(16, 13), whole(16, 8), whole(8, 13)), 0),
    "two products of one operand": (
        gradients_of_layer,
        (whole(16, 13), whole(13, 8), whole(16, 8)),
        3,
    ),
    "rows that a kernel reduces": (
        gradients_behind_largest,
        (whole(16, 13), whole(13, 8), whole(16, 8)),
        3,  # one pads the weight, one cuts its gradient
    ),
    "a layer behind rows that a kernel reduces": (
        lambda x, w, b: F.linear(x - x.amax(-1, keepdim=True), w, b),
        (whole(16, 13), whole(8, 13), whole(8)),
        2,
    ),
    "an operand that other kernels read": (
        read_by_others,
        (whole(16, 13), whole(13, 8)),
        4,  # one pads the weight, one adds up columns, one takes a part
    ),
    "an operand that is a result": (
        product_and_operand,
        (whole(16, 13), whole(13, 8)),
        3,  # each operand is padded by a copy
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_eager(name, reports):
    function, inputs, kernels = CASES[name]
    compiled = framejit.compile(function, backend="native")
    torch.testing.assert_close(
        compiled(*inputs), function(*inputs), rtol=0, atol=0, check_stride=True
    )
    (report,) = reports
    assert len(report.kernels) == kernels, report.kernels


def test_space_behind_rows_holds_zeros_for_products():
    """The memory of a matrix may be that of one that held NaN."""
    inputs = whole(64, 13), whole(13, 8), whole(64, 8)
    compiled = framejit.compile(gradients_behind_largest, backend="native")
    for _ in range(4):
        for stale in [torch.full((64, 16), torch.nan, dtype=torch.bfloat16) for _ in range(50)]:
            del stale
        for own, eager in zip(compiled(*inputs), gradients_behind_largest(*inputs), strict=True):
            torch.testing.assert_close(own, eager, rtol=0, atol=0)


def test_a_number_of_rows_that_varies(reports):
    compiled = framejit.compile(F.linear, backend="native", dynamic=True)
    weight, bias = whole(13, 11), whole(13, seed=2)
    for rows in (16, 19, 24):
        x = whole(rows, 11, seed=rows)
        torch.testing.assert_close(compiled(x, weight, bias), F.linear(x, weight, bias))


def test_gradients(reports):
    layer = torch.nn.Linear(8, 13, dtype=torch.bfloat16)
    with torch.no_grad():
        layer.weight.copy_(whole(13, 8)), layer.bias.copy_(whole(13, seed=2))

    def gradients(call):
        x = whole(16, 8, seed=3).requires_grad_()
        call(x).square().sum().backward()
        found = x.grad, layer.weight.grad, layer.bias.grad
        layer.zero_grad()
        return found

    compiled = framejit.compile(layer, backend="native")
    for own, eager in zip(gradients(compiled), gradients(layer), strict=True):
        torch.testing.assert_close(own, eager, check_stride=True)


def test_what_is_not_worth_it(monkeypatch, reports):
    monkeypatch.setattr(padded_products, "WORTH", 256)
    compiled = framejit.compile(torch.mm, backend="native")
    compiled(whole(16, 8), whole(8, 13))
    (report,) = reports
    assert not report.kernels and report.called
