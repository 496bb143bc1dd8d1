"""Operators on tensors of several dtypes: what the program has done before the error is not lost."""
from __future__ import annotations

import operator

import pytest
import torch
import torch.nn.functional as F

from .harness import check, vec

PRODUCTS = {
    "linear": lambda x, w: F.linear(x, w), "matmul": lambda x, w: x @ w, "method": lambda x, w: x.mm(w), "into": lambda x, w: operator.imatmul(x, w),
    "addmm": lambda x, w: torch.addmm(x, x, w), "bias": lambda x, w: F.linear(x, x, w[0]), "einsum": lambda x, w: torch.einsum("ij,jk->ik", x, w),
    "einsum of a list": lambda x, w: torch.einsum("ij,jk->ik", [x, w]), "conv": lambda x, w: F.conv1d(x[None], w[None]), "bmm": lambda x, w: x[None].bmm(w[None]),
    "norm": lambda x, w: F.layer_norm(x, (3,), w[0], w[0]), "batch norm": lambda x, w: F.batch_norm(x, w[0], w[0]),
    "index_add": lambda x, w: x.index_add(0, torch.tensor([1]), w[:1]), "index_copy": lambda x, w: torch.index_copy(x, 0, torch.tensor([1]), source=w[:1]),
}  # fmt: skip


@pytest.mark.parametrize("name", PRODUCTS)
def test_what_was_done_before_is_kept(name):
    product = PRODUCTS[name]

    def f(x, w, items):
        x.mul_(0.5)
        items.append(x.tanh())
        return product(x, w), items

    check(f, vec(3, 3), vec(3, 3).double(), [], graphs=None, breaks=None)
    check(f, vec(3, 3), vec(3, 3), [])


def test_autocast_makes_them_one():
    def f(x, w):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return x @ w, F.linear(x, w)

    check(f, vec(3, 3), vec(3, 3).bfloat16())
