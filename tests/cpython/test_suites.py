"""A small part of CPython's regression tests under the frame hook; suites.py runs them all."""

from __future__ import annotations

import pytest

from . import suites

CLEAN = (
    "test_scope",
    "test_unpack",
    "test_keywordonlyarg",
)  # small ones, in which nothing may become worse


@pytest.mark.parametrize("suite", CLEAN)
def test_what_passes_in_plain_python_passes_compiled(suite):
    result = suites.compare(suite)
    if result["unavailable"]:
        pytest.skip("this Python comes without its tests")
    assert result["tests"] and result["worse"] == {}
