"""Two inputs on one memory that a graph writes to: where aot_autograd refuses them, eager's
operators run."""

from __future__ import annotations

import framejit
import pytest
import torch

BACKENDS = ("aot_eager", "native")


@pytest.mark.parametrize("backend", BACKENDS)
def test_where_sizes_vary(backend):
    def f(x, log):
        part = x[:, 1:]
        log.append(part.sum().item())
        part *= 0.5
        return torch.where(x > 1, x, 0.5)

    with framejit.config.patch(strict=True):
        compiled = framejit.compile(f, backend=backend)
    for columns in (3, 4, 5):
        x, log = torch.arange(4.0 * columns).reshape(4, columns), []
        y, expected = x.clone(), []
        assert torch.equal(compiled(x, log), f(y, expected))
        assert torch.equal(x, y)
        assert log == expected


@pytest.mark.parametrize("backend", BACKENDS)
def test_where_one_has_no_gradient(backend):
    def f(x, items):
        part = x.detach()
        part.add_(1)
        items.append(part)
        return sum(items, x) * 2

    with framejit.config.patch(strict=True):
        compiled = framejit.compile(f, backend=backend)
    leaf, other = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    x, y, log, expected = leaf * 1, other * 1, [], []
    for _ in range(3):
        one, two = compiled(x, log), f(y, expected)
        assert torch.equal(one, two)
        assert torch.equal(x, y)
        assert all(each.data_ptr() == x.data_ptr() and not each.requires_grad for each in log)
    (one * one).sum().backward()
    (two * two).sum().backward()
    assert torch.equal(leaf.grad, other.grad)
