"""Products with a short inner dimension: which ones are kernels, and their values and gradients."""

from __future__ import annotations

import framejit
import pytest
import torch
from torch.nn import functional as F

ROWS = 4096  # of 16 numbers or more: enough elements


def values(*shape, seed=0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=dtype)


LEFT, RIGHT = values(ROWS, 3), values(3, 24, seed=1)
CASES = {  # function, inputs, how many products torch computes
    "a product": (torch.mm, (LEFT, RIGHT), 0),
    "of doubles": (torch.mm, (LEFT.double(), RIGHT.double()), 0),
    "of one term": (torch.mm, (LEFT[:, :1], RIGHT[:1]), 0),
    "an operand turned": (lambda x, w: x.t() @ w, (values(3, ROWS), RIGHT), 0),
    "and what reads it": (lambda x, w: torch.relu(x @ w).sum(0), (LEFT, RIGHT), 0),
    "in a batch": (lambda x, w: x @ w, (LEFT.view(8, -1, 3), RIGHT), 0),
    "with a bias": (torch.addmm, (values(24, seed=2), LEFT, RIGHT), 0),
    "a layer of one number": (
        lambda x, w, b: torch.tanh(F.linear(x, w, b)),
        (LEFT[:, :1].contiguous(), values(24, 1), values(24, seed=2)),
        0,
    ),
    "with a number": (
        lambda b, x, w: torch.addmm(b, x, w, alpha=2),
        (values(24, seed=2), LEFT, RIGHT),
        1,
    ),
    "a layer of three": (F.linear, (LEFT, values(24, 3)), 1),
    "five terms": (torch.mm, (values(ROWS, 5), values(5, 24)), 1),
    "no terms": (torch.mm, (values(ROWS, 0), values(0, 24)), 1),
    "short rows": (torch.mm, (values(4 * ROWS, 3), RIGHT[:, :8].contiguous()), 1),
    "few elements": (torch.mm, (LEFT[:99], RIGHT), 1),
    "halves": (torch.mm, (LEFT.bfloat16(), RIGHT.bfloat16()), 1),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_equals_eager(name, dynamic, reports):
    function, inputs, calls = CASES[name]
    compiled = framejit.compile(
        lambda *given: function(*given) + 1, backend="native", dynamic=dynamic
    )
    torch.testing.assert_close(compiled(*inputs), function(*inputs) + 1, check_stride=True)
    if not dynamic:
        (report,) = reports
        assert len(report.called) == calls, report.called


def test_nan_and_infinity_spread_as_in_eager():
    left = LEFT.clone()
    left[5], left[6], left[7, 0] = torch.inf, torch.nan, -torch.inf
    compiled = framejit.compile(torch.mm, backend="native")
    torch.testing.assert_close(compiled(left, RIGHT), left @ RIGHT, equal_nan=True)


def test_gradient_of_a_layer_with_few_outputs(reports):
    """It needs no tensor of its own."""
    hidden, weight = values(ROWS, 24), values(2, 24, seed=1)
    inner = values(24, 24, seed=2)

    def loss(weight, inner):
        return (torch.relu(hidden @ inner) @ weight.t()).square().mean()

    results = []
    for function in (loss, framejit.compile(loss, backend="native")):
        wanted = [tensor.clone().requires_grad_() for tensor in (weight, inner)]
        results.append(torch.autograd.grad(function(*wanted), wanted))
    torch.testing.assert_close(results[1], results[0])
    assert [len(report.called) for report in reports] == [2, 2]


def test_a_lookup_before_a_product_stays_a_call(reports):
    """A product that torch may compute does not count as a kernel that reads it."""
    table, positions = values(50, 24), torch.arange(40)
    compiled = framejit.compile(lambda t, p, w: F.embedding(p, t) @ w, backend="native")
    torch.testing.assert_close(
        compiled(table, positions, values(24, 24)), F.embedding(positions, table) @ values(24, 24)
    )
    assert len(reports[0].called) == 2 and not reports[0].kernels
