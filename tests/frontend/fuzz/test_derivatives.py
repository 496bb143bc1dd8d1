"""Random programs that take derivatives: the part that runs each time. derivatives.py is the long
run."""

from __future__ import annotations

import sys
import warnings

import framejit
import pytest
import torch

from ... import sweep_slice
from . import derivatives, long_run

PROGRAMS = sweep_slice.few_of(8, 150)
FIRST = 10**6 * sys.version_info.minor  # each Python has programs of its own


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_derivatives_are_what_they_are_in_eager(backend):
    compared = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in (FIRST + number for number in PROGRAMS):
            found = derivatives.examine(seed, backend)
            assert found is None, f"seed {seed}: {found}\n{derivatives.write(seed)}"
            program = long_run.function_of(derivatives.write(seed), seed)
            compared += derivatives.outcome(program, 0) is not None
    assert compared > len(PROGRAMS) // 3


def test_a_backend_that_loses_factors_is_found():
    def halves(gm, examples):
        def run(*args):
            return tuple(
                result * 0.5 if isinstance(result, torch.Tensor) else result
                for result in gm.forward(*args)
            )

        return run

    framejit.register_backend("halves", halves, overlaps=True)
    assert sum(derivatives.examine(seed, "halves") is not None for seed in range(12)) > 3
