"""Random numbers: the same ones as eager, and the generators left in the same state."""
from __future__ import annotations

import random

import torch
import torch.nn.functional as F

from .harness import check, vec


def test_draws():
    def f(x):
        return torch.rand(2), torch.randn(3), torch.randint(0, 9, (2,)), torch.rand_like(x), torch.randperm(4), torch.bernoulli(x), x.normal_()

    check(f, vec(2))


def test_dropout():
    def f(x):
        return F.dropout(x, 0.5, training=True), F.dropout(x, 0.5, training=False)

    check(f, vec(10))


def test_dropout_with_gradients():
    def f(x):
        return F.dropout(x * 2, 0.5)

    check(f, vec(10, grad=True), backward=True)


def test_manual_seed_inside():
    def f(x):
        torch.manual_seed(7)
        return torch.rand(2) + x

    check(f, vec(2), graphs=None, breaks=None)


def test_state_saved_and_restored():
    def f(x):
        state = torch.get_rng_state()
        a = torch.rand(2)
        torch.set_rng_state(state)
        return a, torch.rand(2), x + 1

    check(f, vec(2), graphs=None, breaks=None)


def test_pythons_random():
    def f(x):
        return x * random.random(), random.randint(1, 5)

    check(f, vec(2), graphs=None, breaks=None)


def test_generator_argument():
    from .harness import strict_compile

    def f(x, g):
        return torch.rand(2, generator=g) + x

    g = strict_compile(f)
    a, b = torch.Generator().manual_seed(1), torch.Generator().manual_seed(1)
    assert torch.equal(g(vec(2), a), f(vec(2), b))
    assert torch.equal(g(vec(2), a), f(vec(2), b))


def test_draws_around_a_break():
    def f(x):
        a = torch.rand(2)
        print("p")
        return a + torch.rand(2) + x

    check(f, vec(2), graphs=2, breaks=("output",))


def test_failing_graph_draws_once():
    def f(x, i):
        noise = torch.rand(2)
        try:
            return F.embedding(i, x) + noise
        except IndexError:
            return noise, torch.rand(2)

    check(f, vec(2, 2), torch.tensor([5]), graphs=None, breaks=None)
