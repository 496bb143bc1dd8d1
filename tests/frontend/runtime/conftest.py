"""The state that tests of the hook need, and leave."""

from __future__ import annotations

import sys

import pytest
from framejit.frontend.runtime import _hook as hook


@pytest.fixture
def untraced_and_clean():
    """Handles step aside while anyone traces (a coverage run does), so these tests cannot."""
    tracer, profiler = sys.gettrace(), sys.getprofile()
    sys.settrace(None)
    sys.setprofile(None)
    yield
    assert not hook.installed()
    assert hook.current_handle() is None
    assert not hook.is_quiet()
    sys.setprofile(profiler)
    sys.settrace(tracer)
