"""Calls that a graph does not take are breaks, with the reason."""

from __future__ import annotations

import framejit
import numpy as np
import pytest
import torch

GRU = torch.nn.GRU(4, 4, batch_first=True)


def numpy_data(x):
    return x + torch.asarray([np.float64(2.5), 1.0]).sum()


def one_length_of_a_recurrence(x):
    return GRU(x)[0].sin()


CASES = {
    "data of a tensor": (numpy_data, [torch.ones(3)], "a numpy number as data of asarray"),
    "lengths": (
        one_length_of_a_recurrence,
        [torch.ones(2, n, 4) for n in (3, 5, 6)],
        "a length that varies, in gru",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_breaks(name):
    function, inputs, reason = CASES[name]
    compiled = framejit.compile(function, backend="eager")
    with torch.no_grad():
        for x in inputs:
            state = torch.get_rng_state()
            expected = function(x)
            torch.set_rng_state(state)
            torch.testing.assert_close(compiled(x), expected)
    assert any(reason in broken.reason for broken in compiled.framejit.explain().breaks)
    assert compiled.framejit.explain().graphs
