"""Positions are looked at before kernels use them."""

from __future__ import annotations

import pytest
import torch
from framejit.backends.native.bounds import reject_gather, reject_index, require
from framejit.backends.native.toolchain._launch import all_within

ENDS = {torch.int64: (-(1 << 63), (1 << 63) - 1), torch.int32: (-(1 << 31), (1 << 31) - 1)}


@pytest.mark.parametrize("low", [0, -5])
@pytest.mark.parametrize("dtype", ENDS)
def test_one_outside_among_many_is_found(dtype, low):
    """At any place, as vector instructions look at several at once."""
    inside = torch.arange(37, dtype=dtype) % (5 - low) + low
    count, bytes_ = inside.numel(), inside.itemsize
    assert all_within(inside, count, bytes_, low, 5)
    assert all_within(inside, 0, bytes_, 0, 0)
    for place in range(count):
        for wrong in (low - 1, 5, *ENDS[dtype]):
            given = inside.clone()
            given[place] = wrong
            assert not all_within(given, count, bytes_, low, 5), (place, wrong)


def test_nothing_is_within_nothing():
    assert not all_within(torch.zeros(1, dtype=torch.int64), 1, 8, 0, 0)


def test_arguments_are_checked():
    for wrong in ((), (1, 2), (torch.zeros(1), 1, 2, 0, 1), (torch.zeros(1), "x", 8, 0, 1)):
        with pytest.raises((TypeError, ValueError, AttributeError)):
            all_within(*wrong)


@pytest.mark.parametrize(
    ("positions", "wraps"),
    [(torch.tensor([[0, 4], [2, 1]]).t(), False), (torch.tensor([-5, 4]), True),
     (torch.tensor(3), False), (torch.zeros(0, dtype=torch.int64), False)],
)  # fmt: skip
def test_positions_inside_are_returned(positions, wraps):
    assert require(positions, (5, 5), 0, wraps, reject_index) is positions


def test_errors_are_those_of_torchs_operator():
    with pytest.raises(IndexError, match="index 9 is out of bounds for dimension 0 with size 7"):
        require(torch.tensor([1, 9]), (5, 7), 1, True, reject_index)
    with pytest.raises(RuntimeError, match="index -1 is out of bounds for dimension 0 with size 5"):
        require(torch.tensor([[-1], [2]]), (5, 7), 0, False, reject_gather)
