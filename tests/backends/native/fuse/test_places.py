"""Kernels whose rows are too few, and too long, for the processors of a GPU; windows that are
stored in another order."""

from __future__ import annotations

import pytest
import torch
from framejit.backends.native.fuse.places import leaves_gpu_idle, turns_windows
from framejit.backends.native.ir.index import atom, index
from framejit.backends.native.ir.program import Kernel, Store, loops
from framejit.backends.native.ir.scalar import load, reduce

LONG, SHORT = 1 << 16, 1 << 10


def sums(rows: int, columns: int, side_by_side: bool = False) -> Kernel:
    """The sum of each row, or of each column of a matrix of as many columns."""
    (row,), (column,) = loops([index(rows)], "r"), loops([index(columns)], "c")
    place = atom(column) * rows + atom(row) if side_by_side else atom(row) * columns + atom(column)
    read = load("x", place, torch.float32)
    return Kernel((row,), (column,), (Store("sum", atom(row), reduce("sum", read)),), ("sum",))


def distances(rows: int, columns: int) -> Kernel:
    """Each element less the sum of its row."""
    row, column = loops([index(rows), index(columns)], "p")
    read = load("x", atom(row) * columns + atom(column), torch.float32)
    value = read - load("sum", atom(row), torch.float32)
    return Kernel((row, column), (), (Store("out", atom(row) * columns + atom(column), value),), ())


@pytest.mark.parametrize(
    ("rows", "columns", "idle"),
    [(64, LONG, True), (255, LONG, True), (256, LONG, False), (64, SHORT, False)],
)
def test_elements_that_need_a_reduced_row(rows, columns, idle):
    assert leaves_gpu_idle(sums(rows, columns), distances(rows, columns)) == idle


@pytest.mark.parametrize(
    ("rows", "columns", "idle"),
    [(64, LONG, True), (2048, 1568, True), (1 << 14, 1568, False), (2048, SHORT, False)],
)
def test_elements_that_need_a_reduced_column(rows, columns, idle):
    assert leaves_gpu_idle(sums(rows, columns, True), distances(rows, columns)) == idle


def test_what_is_computed_once_a_row_stays_with_it():
    assert not leaves_gpu_idle(sums(64, LONG), distances(64, 1))


def test_a_producer_that_reduces_nothing():
    assert not leaves_gpu_idle(distances(64, LONG), distances(64, LONG))


def test_a_consumer_of_elements_that_are_stored_beside_the_sums():
    both = sums(64, LONG)
    row, column = *both.outer, *both.inner
    place = atom(row) * LONG + atom(column)
    stored = Store("copy", place, load("x", place, torch.float32))
    both = Kernel(both.outer, both.inner, (*both.stores, stored), ("sum",))
    reads = Kernel(
        (row, column), (), (Store("out", place, load("copy", place, torch.float32)),), ()
    )
    assert not leaves_gpu_idle(both, reads)
    assert leaves_gpu_idle(both, distances(64, LONG))


@pytest.mark.parametrize("count", [3, 4])
def test_windows_stored_in_another_order(count):
    row, column = loops([index(8), index(16)], "p")
    by_row, by_column = atom(row) * 16 + atom(column), atom(column) * 8 + atom(row)
    window = [load("x", by_row + step, torch.float32) for step in range(count)]
    producer = Kernel((row, column), (), (Store("sum", by_row, sum(window[1:], window[0])),), ())
    read = load("sum", by_row, torch.float32)
    turned = Kernel((row, column), (), (Store("out", by_column, read),), ())
    straight = Kernel((row, column), (), (Store("out", by_row, read),), ())
    assert turns_windows(producer, turned) == (count == 4)
    assert not turns_windows(producer, straight)
