"""Recursion is as deep as Python's."""
from __future__ import annotations

import pytest
from framejit.frontend.runtime import _hook as hook

from .handles import compiled, depth_reached, descend

pytestmark = pytest.mark.usefixtures("untraced_and_clean")


def test_recursion_is_as_deep_as_pythons():
    plain_depth = depth_reached(descend)
    assert depth_reached(compiled(descend)) > plain_depth - 20
    entry = hook.Entry(code=descend.__code__, needs_hook=True)
    assert depth_reached(compiled(descend, entry)) > plain_depth - 20

    def through_handle(note, n):
        note(n)
        return handle(note, n + 1)

    for entry in (hook.Entry(None, through_handle), hook.Entry(None, through_handle, needs_hook=True), hook.Entry()):
        handle = compiled(through_handle, entry)
        assert depth_reached(handle) > plain_depth - 20
