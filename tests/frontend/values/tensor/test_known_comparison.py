"""Branches on random numbers beside a bound that they cannot pass."""

from __future__ import annotations

import framejit
import pytest
import torch


def skip_layers(x, p):
    for _ in range(3):
        if torch.rand([]) < p:
            continue
        x = x * 2
    return x


def keep_layers(x, p):
    for _ in range(2):
        chance = torch.rand(1)
        if not (p > chance) and chance >= -1.0:
            x = x + 1
    return x


def written_random_number(x, p):
    chance = torch.rand([])
    chance.sub_(1.0)
    return x * 2 if chance < p else x


def written_comparison(x, p):
    skip = torch.rand([]) < p
    skip.logical_not_()
    return x * 2 if skip else x


def normal_random_number(x, p):
    return x * 2 if torch.randn([]) < p else x


def of_a_varying_probability(x, p):
    return x * 2 if torch.rand([]) < p * 2 else x


def calls(f, p):
    results = []
    for seed in range(4):
        torch.manual_seed(seed)
        results.append((f(torch.ones(3), p), torch.rand(2)))
    return results


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize(("function", "breaks"), [(skip_layers, 0), (written_random_number, 1)])
def test_draws_are_those_of_eager(function, breaks, backend):
    compiled = framejit.compile(function, backend=backend)
    torch.testing.assert_close(calls(compiled, 0.0), calls(function, 0.0), rtol=0, atol=0)
    assert len(compiled.framejit.explain().breaks) == breaks


@pytest.mark.parametrize(
    ("function", "p", "breaks"),
    [
        (skip_layers, 0.0, 0), (skip_layers, 0, 0), (skip_layers, -0.5, 0), (skip_layers, 0.5, 1),
        (keep_layers, 0.0, 1), (written_random_number, -0.5, 1), (written_comparison, 0.0, 1),
        (normal_random_number, 0.0, 1), (of_a_varying_probability, 0.25, 1),
    ],
)  # fmt: skip
def test_breaks(function, p, breaks):
    compiled = framejit.compile(function, backend="eager")
    torch.testing.assert_close(calls(compiled, p), calls(function, p), rtol=0, atol=0)
    assert len(compiled.framejit.explain().breaks) == breaks
