"""Methods of ints and floats that differ from call to call."""

import math

import framejit
import pytest
import torch
from torch.nn import functional
from torch.utils._pytree import tree_leaves


def padded(x):
    """As libraries pad sequences for attention in windows."""
    windows = x.shape[0] / 4
    if windows.is_integer():
        return x
    return functional.pad(x, (0, math.ceil(windows) * 4 - x.shape[0]))


def padded_part(x):
    """The size that is rounded is that of a result."""
    return padded(x[:-1])


def in_chunks(x):
    """Numbers of chunks, rounded in all ways, of sizes that are calculated."""
    x = x[: x.shape[0] // 3 * 2 + 1]
    count = x.shape[0]
    return (
        x.new_zeros(math.floor(count / 4), int(count / 4)),
        x.new_ones(math.trunc(count / 4), -math.floor(-count / 4) + math.ceil(7 / count)),
        (math.ceil(-count / 4), int(-count / 4), math.floor((2 - count) / 5)),
    )


def padded_for_fft(x):
    return functional.pad(x, (0, (1 << (x.shape[0] - 1).bit_length()) - x.shape[0]))


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize(
    ("function", "compiles"),
    [(padded, 3), (padded_part, 3), (in_chunks, 2), (padded_for_fft, 2)],
    ids=["windows", "windows of a part", "chunks", "powers of two"],
)
def test_sizes_that_vary(function, compiles, backend):
    handle = framejit.compile(function, backend=backend)
    for size in (5, 8, 12, 16, 21, 24, 33, 9):
        x = torch.arange(float(size))
        for got, expected in zip(*map(tree_leaves, (handle(x), function(x))), strict=True):
            torch.testing.assert_close(got, expected)
    assert handle.framejit.compiles == compiles and not handle.framejit.explain().breaks


@pytest.mark.parametrize("function", [
    lambda n: (n / 4).is_integer(),
    lambda n: (12 / n).is_integer(),
    lambda n: (n / 3 + 1).is_integer(),
    lambda n: float(n).is_integer(),
    lambda n: n.bit_length(),
    lambda n: (math.ceil((n + 1) / 4), math.floor((n + 1) / 4), int((n + 1) / 4)),
], ids=["divided", "divides", "sum", "float", "bit length", "rounded"])  # fmt: skip
def test_numbers_of_any_size(function):
    handle = framejit.compile(lambda x, n: (x * 2, function(n)), backend="eager")
    for n in (3, 4, 8, -8, -5, 12, 2**53, 2**53 + 4, 2**60 + 1, 2**61, -(2**62) - 1, 2**70):
        assert repr(handle(torch.ones(2), n)[1]) == repr(function(n)), n
