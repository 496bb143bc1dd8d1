"""Numbers that are compared with a value computed from them, such as `l == l.amax()`: equal in
kernels and their backward passes, although vectors and single elements of exp, log and others
are rounded differently."""

from __future__ import annotations

import framejit
import pytest
import torch

INNER = {
    "log": lambda x: (x.exp() + 1).log(), "log10": lambda x: (x.square() + 1).log10(), "sin": lambda x: (x.exp() + 1).sin().log1p(),
    "tanh": torch.tanh, "multiplied": lambda x: x * 1.1 + x * x * 0.3,
}  # fmt: skip
EXTREMES = {
    "max": lambda v: v - v.max(), "amax": lambda v: v - v.amax(-1, keepdim=True), "amin": lambda v: v - v.amin(0),
    "min": lambda v: v - v.min(),
    "median": lambda v: v - v.median(), "norm": lambda v: v / v.norm(float("inf")),
    "max along": lambda v: v - v.max(-1, keepdim=True).values,
    "largest magnitude": lambda v: v / v.abs().amax(-1, keepdim=True),
}  # fmt: skip
ROWS = (1, 4, 7, 16, 22, 34)


def numbers(rows, columns=15):
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(rows)).add_(0.01)


@pytest.mark.parametrize("dynamic", (False, True))
@pytest.mark.parametrize("extreme", EXTREMES)
@pytest.mark.parametrize("inner", ("log", "sin", "log10"))
@pytest.mark.sweep(12, each=("inner", "dynamic"))
def test_gradients_of_extremes(inner, extreme, dynamic):
    def function(x):
        return EXTREMES[extreme](INNER[inner](x))

    with framejit.config.patch(recompile_limit=64, strict=True):
        compiled = framejit.compile(function, backend="native", dynamic=dynamic)
        for rows in ROWS:
            leaves = numbers(rows).requires_grad_(), numbers(rows).requires_grad_()
            wanted, got = function(leaves[0]), compiled(leaves[1])
            torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)
            weights = numbers(rows).cos()
            gradients = [
                torch.autograd.grad(result, leaf, weights)[0]
                for result, leaf in zip((got, wanted), leaves[::-1], strict=True)
            ]
            torch.testing.assert_close(
                *gradients, rtol=1e-3, atol=1e-4 * float(gradients[1].abs().max())
            )


@pytest.mark.parametrize("dynamic", (False, True))
@pytest.mark.parametrize("inner", INNER)
@pytest.mark.sweep(3)
def test_the_largest_element_is_found(inner, dynamic):
    def function(x):
        value = INNER[inner](x)
        top = value.amax(-1, keepdim=True)
        return (
            (value == top).sum(-1),
            (value >= top).sum(-1),
            torch.where(value < top, 0.0, 1.0).sum(-1),
            value == value.max(),
        )

    with framejit.config.patch(recompile_limit=64, strict=True):
        compiled = framejit.compile(function, backend="native", dynamic=dynamic)
        for rows in (*ROWS, 300):
            for columns in (15, 300):
                equal, not_less, chosen, largest = compiled(numbers(rows, columns))
                assert (
                    equal.min() >= 1
                    and torch.equal(equal, not_less)
                    and torch.equal(equal.float(), chosen)
                    and largest.any()
                )
