"""Random programs about gradient histories: the part that runs each time. histories.py is the long
run."""

from __future__ import annotations

import sys
import warnings

import framejit
import pytest

from ... import sweep_slice
from . import histories, long_run

PROGRAMS = sweep_slice.few_of(15, 200)
FIRST = 10**6 * sys.version_info.minor  # each Python has programs of its own


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native", "torchscript"])
def test_histories_are_what_they_are_in_eager(backend):
    compared = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in (FIRST + number for number in PROGRAMS):
            found = histories.examine(seed, backend)
            assert found is None, f"seed {seed}: {found}\n{histories.write(seed)}"
            program = long_run.function_of(histories.write(seed), seed)
            compared += histories.outcome(program, 2 * seed)[0] is not None
    assert compared > len(PROGRAMS) // 2


def test_a_backend_that_loses_histories_is_found():
    def detaches(gm, examples):
        return lambda *args: tuple(result.detach() for result in gm.forward(*args))

    framejit.register_backend("detaches", detaches, overlaps=True)
    assert sum(histories.examine(seed, "detaches") is not None for seed in range(20)) > 5
