"""Operators of torch that are called with two numbers."""

import framejit
import pytest
import torch
import torch.utils._pytree as pytree


def in_windows(x):
    count = torch.div(x.shape[0], 2, rounding_mode="trunc") - 1
    return x[:-2].view(count, 2).sum(1), x.new_zeros((count + 1, 2)), count


def repeated(x):
    count = torch.mul(x.shape[0], 2)
    return x.repeat(count), x[: count - 1], int(count)


def written(x):
    count = torch.floor_divide(x.shape[0], 2)
    windows = x.view(count, 2)
    count.view(1).add_(1)
    return windows, x.new_zeros(count), count


def written_past_autograd(x):
    count = torch.floor_divide(x.shape[0], 2)
    count.data.add_(1)
    return x.new_zeros(count), count


def of_negative_numbers(x):
    count = torch.div(x.shape[0] - 12, 3, rounding_mode="trunc")
    return x[count:], torch.div(x.shape[0] - 20, 3, rounding_mode="floor")


def of_floats(x):
    ratio = torch.div(x.shape[0], 3)
    return ratio * x, torch.mul(0.1, x.shape[0]), torch.div(x.shape[0], 0.3, rounding_mode="floor")


def of_sums(x):
    count = torch.sub(torch.add(x.shape[0], 2), 1)
    return x.new_zeros(count), torch.subtract(x.shape[0], 0.1), torch.multiply(x.shape[0], 2)


def of_scaled_sums(x):
    return torch.add(x.shape[0], 0.1, alpha=3), torch.sub(1, x.shape[0], alpha=2)


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize(
    "function",
    [
        in_windows,
        repeated,
        written,
        written_past_autograd,
        of_negative_numbers,
        of_floats,
        of_sums,
        of_scaled_sums,
    ],
)
def test_tensors_of_numbers_that_vary(function, backend):
    handle = framejit.compile(function, backend=backend)
    for size in (4, 6, 8, 30):
        x = torch.arange(float(size))
        for got, expected in zip(*map(pytree.tree_leaves, (handle(x), function(x))), strict=True):
            torch.testing.assert_close(got, expected)
    assert handle.framejit.compiles == 2 and not handle.framejit.explain().breaks


def test_tensors_of_numbers_are_on_the_cpu():
    handle = framejit.compile(lambda x: torch.div(x.shape[0], 2), backend="eager")
    with torch.device("meta"):
        assert handle(torch.ones(3)).device.type == "cpu"
