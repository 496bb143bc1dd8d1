"""Values that readers compute themselves, and those that are stored."""

from __future__ import annotations

import framejit
import pytest
import torch
from framejit.backends.native import backend as native
from framejit.backends.native.ir.program import Call, with_buffers

HALF = torch.bfloat16


def of_halves(x, y):
    """Two halves are less memory traffic than their product in float32."""
    product = x.float() * y.float()
    return product - product.sum(1, keepdim=True), product.sum(0)


def of_floats(x, y):
    """Two floats are as much memory traffic as their product stored and read."""
    product = x * y
    return product - product.sum(1, keepdim=True), product.sum(0)


def read_twice(x, y):
    product = x.float() * y.float()
    return product.softmax(1), product.sum(0), (product.t().reshape(-1) + 1).view(-1, x.shape[0])


def expensive(x, y):
    wave = (x.float() * y.float()).sin().exp()
    return wave - wave.sum(1, keepdim=True), wave.sum(0)


def read_by_torch(x, y):
    product = x.float() * y.float()
    return product - product.sum(1, keepdim=True), product @ product.t()


def returned(x, y):
    product = x.float() * y.float()
    return product, product - product.sum(1, keepdim=True), product.sum(0)


def of_a_row(x, y):
    """What is stored depends on the sum of its row."""
    scaled = x.float() / x.float().sum(1, keepdim=True)
    return scaled - scaled.amax(1, keepdim=True), scaled.sum(0)


# the values of every element that are stored, results included
STORED = {
    of_halves: 1, of_floats: 2, read_twice: 1, expensive: 2, read_by_torch: 2, returned: 2,
    of_a_row: 2,
}  # fmt: skip


@pytest.mark.parametrize("f", STORED, ids=lambda f: f.__name__)
def test_what_is_stored(f, monkeypatch):
    made = []
    original = native.split_long_rows
    monkeypatch.setattr(
        native, "split_long_rows", lambda *args: made.append(original(*args)) or made[-1]
    )
    x, y = torch.randn(2, 40, 24, generator=torch.Generator().manual_seed(0)).abs().unbind()
    if f is not of_floats:
        x, y = x.to(HALF), y.to(HALF)
    torch.testing.assert_close(framejit.compile(f, backend="native")(x, y), f(x, y))
    (program,) = made
    kernels = [with_buffers(step) for step in program.steps if not isinstance(step, Call)]
    stored = [
        store
        for kernel in kernels
        for store in kernel.stores
        if program.buffers[store.buffer].size[-1].value
        and all(number.value > 1 for number in program.buffers[store.buffer].size)
        and len(program.buffers[store.buffer].size) == 2
    ]
    assert len(stored) == STORED[f]
