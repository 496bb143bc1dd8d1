"""Programs edited between two processes: the part that runs each time. edits.py is the long run."""

from __future__ import annotations

import sys

import pytest

from ... import sweep_slice
from . import edits

OTHERS = 10**6 * sys.version_info.minor  # each Python has programs of its own


@pytest.mark.parametrize(
    "backend, count",
    [("eager", sweep_slice.few_or_all(50, 120)), ("native", sweep_slice.few_or_all(10, 20))],
)
def test_what_an_edit_changes_is_never_served_from_disk(backend, count, tmp_path):
    found = edits.search(count, OTHERS, backend, tmp_path)
    assert found.different == []
    assert found.edits > count // 2
    # or the test would compare Python with Python
    assert found.taken_unedited > 0.8 * found.edits
