"""torch.take_along_dim() of tensors whose sizes vary."""

from __future__ import annotations

import framejit
import pytest
import torch


def by_name(x, index):
    return torch.take_along_dim(input=x, indices=index, dim=1) * 2


def by_method(x, index):
    return x.take_along_dim(index, -2) + 1


def sorted_along(x, index):
    return torch.take_along_dim(x, x.argsort(2), dim=2) + index.sum()


def flat(x, index):
    return torch.take_along_dim(x, index)


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("f", [by_name, by_method, sorted_along, flat], ids=lambda f: f.__name__)
def test_sizes_that_vary(f, backend):
    handle = framejit.compile(f, backend=backend)
    for length in (4, 5, 7, 6, 9):
        mine = torch.randn(2, 3, length, requires_grad=True)
        its = mine.detach().clone().requires_grad_()
        index = torch.randint(0, 3, (2, 4, 1))
        got, wanted = handle(mine, index), f(its, index)
        assert got.equal(wanted) and got.stride() == wanted.stride()
        got.sin().sum().backward()
        wanted.sin().sum().backward()
        torch.testing.assert_close(mine.grad, its.grad)
    assert handle.framejit.compiles <= 2, handle.framejit.explain()


def test_sizes_that_do_not_fit_are_refused():
    handle = framejit.compile(by_name, backend="eager")
    index = torch.randint(0, 3, (2, 4, 1))
    for length in (4, 5, 6):
        handle(torch.ones(2, 3, length), index)
    for shape in ((5, 3, 7), (2, 3, 8, 1)):
        with pytest.raises(RuntimeError):
            handle(torch.ones(shape), index)
