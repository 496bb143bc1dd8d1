"""A slice of torch's operator database with sizes that vary, on framejit's own compiler.
varying_sizes.py runs the whole."""

from __future__ import annotations

import pytest

from . import sweep, varying_sizes

EVERY = 16  # how many operators one of the slice stands for
SLICE = [
    (name, setting)
    for name in list(sweep.operators())[5::EVERY]
    for setting in varying_sizes.SETTINGS
]


@pytest.mark.sweep(6, each=("setting",))
@pytest.mark.parametrize(("name", "setting"), SLICE, ids=lambda value: str(value))
def test_operator(name, setting):
    op = sweep.operators()[name]
    if sweep.applies(op, setting):
        row = varying_sizes.measure(name, op, setting)
        assert (row.pinned, row.difference) == ("", "")
        assert row.compiles <= row.needed
