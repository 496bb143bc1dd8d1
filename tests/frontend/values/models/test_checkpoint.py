"""The reentrant form of torch.utils.checkpoint is captured where it has the results of the other."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from ...semantics.harness import strict_compile

torch.manual_seed(0)
ONE, OTHER = nn.Linear(3, 3), nn.Linear(3, 3)


def two_layers(x):
    return checkpoint(lambda y: OTHER(ONE(y).relu()), x, use_reentrant=True).sum()


def several_results(x):
    one, other = checkpoint(lambda y, z: (ONE(y), y.sin() * z), x, x * 2, use_reentrant=True)
    return one.sum() + other.cos().sum()


def with_dropout(x):
    torch.manual_seed(3)
    return checkpoint(
        lambda y: nn.functional.dropout(ONE(y), 0.5), x, use_reentrant=True, preserve_rng_state=True
    ).sum()


def nested(x):
    def inner(y):
        return checkpoint(lambda z: ONE(z).sin(), y, use_reentrant=False) * 2

    return checkpoint(inner, x, use_reentrant=True).sum()


def twice(x):
    y = checkpoint(lambda y: ONE(y).relu(), x, use_reentrant=True)
    return checkpoint(lambda y: ONE(y).sin(), y, use_reentrant=True).sum()


def without_gradients(x):
    with torch.no_grad():
        return checkpoint(lambda y: ONE(y), x, use_reentrant=True).sum() + x.sum()


CAPTURED = [two_layers, several_results, with_dropout, nested, twice, without_gradients]


def result_without_gradient(x):
    one, other = checkpoint(lambda y: (ONE(y), torch.ones(3)), x, use_reentrant=True)
    return one.sum() + other.sum() * (2 if other.requires_grad else 3)


def argument_returned(x):
    return checkpoint(lambda y: (y, ONE(y)), x, use_reentrant=True)[1].sum()


def grad_mode_read(x):
    def function(y):
        return ONE(y) if torch.is_grad_enabled() else ONE(y) * 1

    return checkpoint(function, x, use_reentrant=True).sum()


def no_argument_needs_gradients(x):
    return (
        checkpoint(lambda y: ONE(y), x.detach(), use_reentrant=True).sum()
        + checkpoint(lambda: ONE(x), use_reentrant=True).sum()
        + x.sum()
    )


def closed_over(x):
    y = x.sin()
    return checkpoint(lambda z: ONE(z) * y, x, use_reentrant=True).sum()


def form_not_given(x):
    return checkpoint(lambda y: ONE(y), x).sum()


BREAKING = [
    result_without_gradient, argument_returned, grad_mode_read, no_argument_needs_gradients,
    closed_over, form_not_given,
]  # fmt: skip


def outcome(call):
    """The result, gradients, error and warnings of a step."""
    x = torch.arange(6.0).view(2, 3).requires_grad_()
    for p in (*ONE.parameters(), *OTHER.parameters()):
        p.grad = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = call(x)
        try:
            found.backward()
            error = ""
        except RuntimeError as raised:
            error = str(raised)[:40]
    leaves = (x, *ONE.parameters(), *OTHER.parameters())
    grads = [None if p.grad is None else p.grad.tolist() for p in leaves]
    messages = [str(one.message) for one in caught if "checkpoint" in str(one.message)]
    return found.item(), error, messages, grads


@pytest.mark.parametrize("program", [*CAPTURED, *BREAKING], ids=lambda f: f.__name__)
def test_the_reentrant_form(program):
    compiled = strict_compile(program)
    for _ in range(2):
        ours, eagers = outcome(compiled), outcome(program)
        assert ours[:3] == eagers[:3]
        for one, other in zip(ours[3], eagers[3], strict=True):
            assert (one is None) == (other is None)
            if one is not None:
                torch.testing.assert_close(torch.tensor(one), torch.tensor(other))
    assert bool(compiled.framejit.explain().breaks) == (program in BREAKING)
