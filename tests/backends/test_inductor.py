"""torch's own compiler, behind an adapter."""

from __future__ import annotations

import framejit
import torch


def test_a_write_that_gives_an_input_a_gradient():
    """Its old content is what the backward pass needs."""

    def f(b, x):
        b.mul_(x)
        return b.sum()

    def train(function):
        b, x = torch.arange(4.0), torch.ones(4, requires_grad=True)
        loss = function(b, x)
        loss.backward()
        return loss.detach(), b.detach(), x.grad

    handle = framejit.compile(f, backend="inductor")
    assert all(map(torch.equal, train(handle), train(f)))
