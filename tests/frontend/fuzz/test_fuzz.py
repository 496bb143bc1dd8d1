"""Random programs, compiled against eager: the part that runs each time. differential.py is the
long run."""

from __future__ import annotations

import os
import sys

from framejit import errors
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ... import sweep_slice
from . import differential

PROGRAMS = int(os.environ.get("FRAMEJIT_FUZZ_PROGRAMS") or sweep_slice.few_or_all(35, 100))
OTHERS = 10**6 * sys.version_info.minor  # each Python has programs of its own
CAPTURED = 0.9  # of the tensor operations that the programs run


def test_programs_do_compiled_what_they_do_in_eager():
    verdicts = []

    @settings(
        max_examples=PROGRAMS,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.integers(OTHERS, OTHERS + 10**6))
    def examine(seed):
        verdict = differential.one(seed)
        verdicts.append(verdict)
        assert verdict.difference is None, (
            f"seed {seed}: {verdict.difference}\n{verdict.source[len(differential.programs.PRELUDE) :]}"
        )

    examine()
    ops, captured = sum(v.ops for v in verdicts), sum(v.captured for v in verdicts)
    assert captured >= CAPTURED * ops, f"{captured} of {ops} operations captured"
    assert any(v.raised for v in verdicts) and {
        reason for v in verdicts for reason in v.breaks
    } <= set(errors.REASONS)


def test_errors_of_framejit_that_a_program_takes_are_seen():
    with differential.framejits_errors() as made:
        try:
            raise errors.InternalError("a bug")
        except Exception:
            pass
    errors.InternalError("not any more")
    assert [str(error) for error in made] == ["a bug"]
