"""Numbers that are calculated from sizes, where Python needs one of them."""

import math
import operator

import framejit
import pytest
import torch
from framejit.frontend.values.tensor.calculated_numbers import determines
from framejit.guards.source import CalculatedNumber, SlotSource
from torch.nn import functional


def summed_by_halves(y, steps):
    for _ in range(steps):
        y = y.view(y.shape[0] // 2, 2).sum(1)
    return y


def padded_scan(x):
    """As the parallel scans of state space models pad their sequences."""
    length = x.shape[0]
    power = 2 ** math.ceil(math.log2(length))
    y = x.clone() if length == power else functional.pad(x, (0, power - length))
    return summed_by_halves(y, int(math.log2(y.shape[0])))


def scan_of_bits(x):
    steps = (x.shape[0] - 1).bit_length()
    return summed_by_halves(functional.pad(x, (0, (1 << steps) - x.shape[0])), steps)


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize(("scan", "compiles"), [(padded_scan, 6), (scan_of_bits, 4)])
def test_a_scan_has_one_version_for_each_number_of_steps(scan, compiles, backend):
    handle = framejit.compile(scan, backend=backend)
    for length in (5, 9, 7, 12, 16, 17, 20, 8, 31, 6, 11):
        x = torch.arange(float(length))
        torch.testing.assert_close(handle(x), scan(x))
    assert handle.framejit.compiles == compiles and not handle.framejit.explain().breaks


def test_sizes_in_the_graph_of_a_scan_are_constants():
    handle = framejit.compile(padded_scan, backend="eager")
    for length in (5, 6, 9):
        handle(torch.arange(float(length)))
    graph = str(handle.framejit.explain().graphs[-1].graph)
    assert [f".view({size}, 2)" in graph for size in (8, 4, 2, 1)] == [True] * 4


COUNT = SlotSource(0, "n")
POWER = CalculatedNumber(COUNT, operator.pow, (2,))


@pytest.mark.parametrize(("source", "is_determined"), [
    (POWER, True),
    (CalculatedNumber(CalculatedNumber(POWER, math.log2), int), True),
    (CalculatedNumber(COUNT, math.log2), True),
    (CalculatedNumber(CalculatedNumber(COUNT, math.log2), int), False),
    (CalculatedNumber(COUNT, operator.floordiv, (), (2,)), False),
    (CalculatedNumber(COUNT, math.cos), False),
    (COUNT, False),
], ids=lambda source: getattr(source, "name", ""))  # fmt: skip
def test_determines(source, is_determined):
    assert determines(source, COUNT, 5) is is_determined
