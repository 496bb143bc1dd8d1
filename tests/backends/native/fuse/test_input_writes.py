"""Kernels that store into written inputs: eager's values, and no copy where none is needed."""

from __future__ import annotations

import framejit
import pytest
import torch
from torch.nn import functional as F


def scale(x, y):
    x.mul_(y)


def both_of_both(x, y):
    x.add_(y)
    y.add_(x)


def return_the_new_content(x, y):
    x.mul_(2)
    return x + y


def read_by_a_product_before(x, y):
    product = x @ y
    x.add_(product)
    return product.sum()


def normalize(x, y):  # reads the row before it stores to it
    x.copy_(F.layer_norm(x, (8,), y[0]))


def convolution_and_statistics(x, y):
    result = F.conv2d(x[None, None], y[None, None, :3, :3], padding=1)
    x.lerp_(result[0, 0], 0.1)
    return result


def swap(x, y):
    old = x.clone()
    x.copy_(y)
    y.copy_(old)


def read_later_by_a_product(x, y):
    doubled = x * 2
    x.copy_(y)
    return doubled @ y


def read_elsewhere(x, y):
    x.copy_(x.t() + y)


def shift(x, y):
    x[1:] = x[:-1].clone()


def subtract_the_sum(x, y):
    x.sub_(x.sum())


def return_what_is_stored(x, y):
    tripled = x * 3
    x.copy_(tripled)
    return tripled


def return_what_may_be_a_view(x, y):
    kept = x.contiguous()
    x.zero_()
    return kept


def scatter(x, y):
    x.index_add_(0, torch.tensor([0, 0, 1]), y[:3])


def write_rows(x, y):
    x.index_copy_(0, torch.tensor([5], device=x.device), y[:1])
    return x @ y


def write_rows_twice(x, y):  # the second operator may raise, and must find the first one undone
    x.index_copy_(0, torch.tensor([5]), y[:1])
    y[torch.tensor([1, 2])] = x[:2]


def write_rows_of_the_old(x, y):
    x.index_copy_(0, torch.tensor([5, 0], device=x.device), x[:2].clone())


def into_another_dtype(x, y):
    x.copy_(y.double() * 2)


# by function: the copies to inputs that are left
CASES = {
    scale: 0, both_of_both: 0, return_the_new_content: 0, read_by_a_product_before: 0, normalize: 0,
    convolution_and_statistics: 0, swap: 1, read_later_by_a_product: 0, read_elsewhere: 1, shift: 1,
    subtract_the_sum: 0, return_what_is_stored: 0, return_what_may_be_a_view: 0, scatter: 1,
    write_rows: 1, write_rows_twice: 2, write_rows_of_the_old: 1,
    into_another_dtype: 0,
}  # fmt: skip
LAYOUTS = {
    "dense": lambda: torch.randn(8, 8),
    "transposed": lambda: torch.randn(8, 8).t(),
    "with gaps": lambda: torch.randn(8, 16)[:, ::2],
    "behind the start": lambda: torch.randn(2, 8, 8)[1],
}


def run(function, layout):
    torch.manual_seed(0)
    x, y = LAYOUTS[layout](), torch.randn(8, 8)
    before = x._version, y._version
    return function(x, y), x, y, (x._version > before[0], y._version > before[1])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("function", CASES, ids=lambda function: function.__name__)
def test_values_and_versions(function, layout):
    *found, written = run(framejit.compile(function, backend="native"), layout)
    *expected, was_written = run(function, layout)
    torch.testing.assert_close(found, expected)
    assert written == was_written


@pytest.mark.parametrize("function", CASES, ids=lambda function: function.__name__)
def test_copies_that_are_left(function, reports):
    framejit.compile(function, backend="native")(torch.randn(8, 8), torch.randn(8, 8))
    assert reports[0].host.count(".copy_(") == CASES[function], reports[0].host


@pytest.mark.gpu
@pytest.mark.parametrize("function", [write_rows, write_rows_of_the_old])
def test_rows_are_written_in_place_on_a_gpu(function, reports):
    """There, an index that is out of range is reported later."""
    x, y = (torch.randn(8, 8, device="cuda") for _ in range(2))
    expected = x.clone()
    torch.testing.assert_close(
        framejit.compile(function, backend="native")(x, y), function(expected, y)
    )
    # others are of graphs that are compiled in the background
    hosts = [one.host for one in reports if "aten.index_copy.default" in one.called]
    assert torch.equal(x, expected) and hosts and ".copy_(" not in hosts[0], hosts


def test_an_error_finds_the_old_content():
    def write_before_an_index(x, index):
        rows = x[index]
        x.add_(1)
        return rows

    x = torch.zeros(4, 8)
    with pytest.raises(IndexError):
        framejit.compile(write_before_an_index, backend="native")(x, torch.tensor([9]))
    assert x.eq(0).all()
    compiled = framejit.compile(write_before_an_index, backend="native")
    assert compiled(x, torch.tensor([1])).eq(0).all() and x.eq(1).all()
    with pytest.raises(IndexError):
        compiled(x, torch.tensor([9]))
    assert x.eq(1).all()


def test_the_step_of_an_optimizer_copies_nothing(reports):
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.Linear(8, 8))
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)

    def step(x):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    step(torch.randn(4, 8))
    framejit.compile(step, backend="native")(torch.randn(4, 8))
    hosts = [report.host for report in reports]
    assert any("count_writes" in host for host in hosts), hosts
    assert not any(".copy_(" in host for host in hosts), hosts
