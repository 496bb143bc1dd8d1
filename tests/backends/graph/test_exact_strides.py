"""Strides of dimensions of one element where sizes vary."""

import framejit
import pytest
import torch


def in_chunks(x):
    """As attention in windows chunks a mask, whose last dimension has one element."""
    mask = x[:, :, None, None].transpose(1, 2).reshape(2, x.shape[1], 1)
    return mask.view(2, x.shape[1] // 4, 4, 1)


FUNCTIONS = {
    "chunks": in_chunks,
    "a mask as another dtype": lambda x: x[:, None].to(torch.float64)[..., None],
    "a filled one": lambda x: x[:, None].new_ones((1, x.shape[1], 1)).transpose(0, 1),
}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_strides_of_views_and_copies(function):
    def strides(x):
        y = function(x)
        return y.stride(), y.as_strided(y.shape, y.stride()) * 2

    handle = framejit.compile(strides, backend="eager")
    for size in (8, 12, 16, 24):
        x = torch.arange(2.0 * size).view(2, size)
        got, expected = handle(x), strides(x)
        assert got[0] == expected[0] and torch.equal(got[1], expected[1])
    assert handle.framejit.compiles == 2 and not handle.framejit.explain().breaks


def test_strides_that_only_eager_knows_are_read_by_python():
    handle = framejit.compile(lambda x: (x[:, :1] * 2).stride(), backend="eager")
    for size in (8, 12, 16):
        assert handle(torch.ones(size, 3)) == (1, 1)
    assert handle.framejit.explain().breaks
