"""overlap.py against the elements themselves: a tensor's bytes, listed."""

from __future__ import annotations

import itertools
from random import Random

import pytest
import torch
from framejit.overlap import (
    Window,
    may_overlap,
    may_overlap_itself,
    pairs_that_overlap,
    window_of,
)  # fmt: skip

MATRIX = torch.arange(48.0).view(6, 8)
CUBE = torch.arange(96.0).view(4, 4, 6)


def addresses(window: Window) -> list[int]:
    """The first byte of each element."""
    if window.is_empty:
        return []
    ranges = (
        range(0, size * stride, stride) if stride else (0,) * size
        for size, stride in zip(window.sizes, window.strides, strict=True)
    )
    return [window.address + window.itemsize * sum(at) for at in itertools.product(*ranges)]


def cover(window: Window) -> set[int]:
    """Every byte that belongs to it."""
    return {byte for start in addresses(window) for byte in range(start, start + window.itemsize)}


def random_window(random: Random) -> Window:
    dims = random.randint(0, 3)
    sizes = tuple(random.choice((0, 1, 2, 3, 4)) for _ in range(dims))
    return Window(
        1000 + random.randint(0, 40),
        random.choice((1, 2, 4)),
        sizes,
        tuple(random.choice((0, 1, 2, 3, 4, 8, 12)) for _ in range(dims)),
    )


@pytest.mark.parametrize("seed", range(20))
def test_windows_said_to_be_apart_share_no_byte(seed):
    random, apart, told = Random(seed), 0, 0
    for _ in range(300):
        one, other = random_window(random), random_window(random)
        share = not cover(one).isdisjoint(cover(other))
        assert may_overlap(one, other) == may_overlap(other, one)
        assert may_overlap(one, other) or not share, (one, other)
        apart, told = apart + (not share), told + (not may_overlap(one, other))
        assert may_overlap_itself(one) or len(cover(one)) == one.itemsize * len(addresses(one)), one
    assert told > 0.8 * apart  # most that are apart are recognised


@pytest.mark.parametrize("seed", range(20))
def test_pairs_among_many_windows(seed):
    random = Random(seed)
    windows = [random_window(random) for _ in range(40)]
    pairs = itertools.combinations(range(40), 2)
    expected = [pair for pair in pairs if may_overlap(windows[pair[0]], windows[pair[1]])]
    assert sorted(pairs_that_overlap(windows)) == expected


@pytest.mark.parametrize(("one", "other"), [
    (MATRIX[0], MATRIX[1]), (MATRIX[:, 0], MATRIX[:, 1]), (MATRIX[::2], MATRIX[1::2]), (MATRIX[:, ::2], MATRIX[:, 1::2]),
    MATRIX.chunk(2, 1), MATRIX.split([3, 5], 1), MATRIX.t().chunk(2), CUBE.chunk(2, 1), CUBE.chunk(2, 2), CUBE.permute(2, 0, 1).chunk(2),
    (CUBE[:, 0:2, 0:3], CUBE[:, 1:3, 3:6]), (MATRIX.diagonal(), MATRIX[0, 1:]), (MATRIX.view(-1)[:7], MATRIX.view(-1)[7:]),
    (MATRIX[:0], MATRIX), (torch.empty(3, device="meta"), torch.empty(3, device="meta")),
    torch.view_as_real(torch.ones(3, dtype=torch.complex64)).unbind(-1), (MATRIX.view(torch.int16)[:, :4], MATRIX[:, 2:]),
])  # fmt: skip
def test_common_views_are_apart(one, other):
    assert not may_overlap(window_of(one), window_of(other))


@pytest.mark.parametrize(("one", "other"), [
    (MATRIX, MATRIX), (MATRIX[1:], MATRIX[:-1]), (MATRIX[:, 1:], MATRIX[:, :-1]), (MATRIX[::2], MATRIX[4]), (MATRIX, MATRIX.detach()),
    (MATRIX.t(), MATRIX[0]), (MATRIX.view(torch.int32), MATRIX), (MATRIX[0, 0], MATRIX), (MATRIX[:1].expand(3, 8), MATRIX[0]),
])  # fmt: skip
def test_views_of_the_same_elements_overlap(one, other):
    assert may_overlap(window_of(one), window_of(other))


def test_two_storages_may_hold_the_same_bytes():
    memory = bytearray(64)
    one, other = (
        torch.frombuffer(memory, dtype=torch.float32),
        torch.frombuffer(memory, dtype=torch.float32, offset=32),
    )
    assert window_of(one).storage != window_of(other).storage
    assert may_overlap(window_of(one), window_of(other)) and not may_overlap(
        window_of(one[:8]), window_of(other)
    )


@pytest.mark.parametrize(("tensor", "overlaps"), [
    (MATRIX, False), (MATRIX.t(), False), (MATRIX[:, ::3], False), (MATRIX[0].expand(3, 8), True), (MATRIX[0].unfold(0, 3, 1), True),
    (MATRIX[0].unfold(0, 3, 3), False), (MATRIX.as_strided((3, 3), (1, 1)), True), (MATRIX[:0].expand(0, 8), False),
])  # fmt: skip
def test_elements_of_one_tensor_that_share_memory(tensor, overlaps):
    assert may_overlap_itself(window_of(tensor)) is overlaps
