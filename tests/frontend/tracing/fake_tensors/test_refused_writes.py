"""Writes that compiled code leaves to torch."""

from __future__ import annotations

import operator

import pytest
import torch

from ...semantics.harness import check, vec

FILLS = {
    "fill_": lambda x, s: x.fill_(s),
    "every item": lambda x, s: operator.setitem(x, slice(None), s),
    "items of a mask": lambda x, s: operator.setitem(x, x > 0, s),
    "masked_fill_": lambda x, s: x.masked_fill_(x > 0, s),
    "index_fill_": lambda x, s: x.index_fill_(0, torch.tensor([0]), s),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("dtype", [torch.int64, torch.bool])
@pytest.mark.parametrize("name", FILLS)
def test_integers_filled_with_a_number_that_has_a_history(name, dtype, backend):
    def f(x, s):
        y = (x * 3).to(dtype)
        FILLS[name](y, s.mul(2))
        return y, s + 1

    history = torch.tensor(2.0, requires_grad=True)
    check(f, vec(3), history, backend=backend, breaks=None, graphs=None, skipped=True)
    check(f, vec(3), torch.tensor(2.0), backend=backend)


def test_floats_are_filled_in_the_graph():
    def f(x, s):
        y = x * 3
        y.fill_(s.mul(2))
        return y

    check(f, vec(3), torch.tensor(2.0, requires_grad=True))
