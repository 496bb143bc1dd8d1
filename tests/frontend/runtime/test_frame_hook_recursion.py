"""Recursion is as deep as Python's."""

from __future__ import annotations

import sys

import pytest
from framejit.frontend.runtime import _hook as hook

from .handles import calls_inner, compiled, depth_reached, descend, inner

pytestmark = pytest.mark.usefixtures("untraced_and_clean")


def test_recursion_is_as_deep_as_pythons():
    plain_depth = depth_reached(descend)
    assert depth_reached(compiled(descend)) > plain_depth - 20
    entry = hook.Entry(code=descend.__code__, needs_hook=True)
    assert depth_reached(compiled(descend, entry)) > plain_depth - 20

    def through_handle(note, n):
        note(n)
        return handle(note, n + 1)

    for entry in (
        hook.Entry(None, through_handle),
        hook.Entry(None, through_handle, needs_hook=True),
        hook.Entry(),
    ):
        handle = compiled(through_handle, entry)
        assert depth_reached(handle) > plain_depth - 20


def test_a_compile_that_finds_no_room_leaves_the_call_to_python(monkeypatch):
    told = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)

    def too_deep(*_):
        raise RecursionError("no room")

    site = hook.Site(inner, 1, too_deep)
    assert hook.Handle(inner, site)(3) == ("eager", 3)
    handle = compiled(
        calls_inner, hook.Entry(None, calls_inner, needs_hook=True), on_frame=too_deep
    )
    assert handle(3) == ("eager", 3)
    assert not told

    def failing(*_):
        raise ValueError("not for want of room")

    with pytest.raises(ValueError, match="not for want of room"):
        hook.Handle(inner, hook.Site(inner, 1, failing))(3)
