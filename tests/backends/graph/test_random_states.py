"""Keeping the states of torch's generators for a second run."""

from __future__ import annotations

import framejit
import pytest
import torch
from framejit.backends.graph.random_states import RandomStates, random_states_kept

GPU = pytest.mark.gpu
DEVICES = ["cpu", pytest.param("cuda", marks=GPU)]


@pytest.mark.parametrize("device", DEVICES)
def test_restore(device):
    x = torch.zeros(4, device=device)
    states = RandomStates([x, "no tensor"])
    assert not states.have_moved()
    first = torch.rand_like(x)
    assert states.have_moved()
    states.restore()
    assert torch.equal(torch.rand_like(x), first)


@pytest.mark.parametrize("device", DEVICES)
def test_a_block_with_other_states(device):
    x = torch.zeros(4, device=device)
    states = RandomStates([x.device])
    first, second = torch.rand_like(x), torch.rand_like(x)
    states.restore()
    assert torch.equal(torch.rand_like(x), first)
    with random_states_kept([x], states):
        assert torch.equal(torch.rand_like(x), first)
    assert torch.equal(torch.rand_like(x), second)


@pytest.mark.parametrize("device", DEVICES)
def test_a_second_derivative_through_the_same_dropout(device):
    def function(x):
        return torch.nn.functional.dropout(x.sin() * x, 0.5)

    def second(run):
        torch.manual_seed(0)
        x = torch.linspace(0.1, 1, 64, device=device).requires_grad_()
        (first,) = torch.autograd.grad(run(x).sum(), x, create_graph=True)
        torch.rand(3, device=device)  # the program draws on
        return torch.autograd.grad(first.square().sum(), x)[0]

    torch.testing.assert_close(
        second(framejit.compile(function, backend="native")), second(function)
    )
