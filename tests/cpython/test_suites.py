"""A small part of CPython's regression tests under the frame hook; suites.py runs them all."""

from __future__ import annotations

import pytest

from . import suites

# small ones, in which nothing may become worse; one of them at each commit
CLEAN = ("test_scope", "test_unpack", "test_keywordonlyarg")


@pytest.mark.parametrize("suite", CLEAN)
@pytest.mark.sweep(3)
def test_what_passes_in_plain_python_passes_compiled(suite):
    result = suites.compare(suite)
    assert not result["unavailable"], (
        "this Python lacks its test package (Debian: libpython3-testsuite)"
    )
    assert result["tests"] and result["worse"] == {}
