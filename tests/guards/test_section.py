"""Sections of a guard program."""

from __future__ import annotations

import dataclasses

import pytest
from framejit.guards.section import PURE_LOADS
from framejit.guards.source import SlotSource


@pytest.mark.parametrize("cls", PURE_LOADS, ids=lambda cls: cls.__name__)
def test_what_is_watched_is_loaded_without_python(cls):
    """A load that C does not know would call Python once, and never again while nothing that C
    watches has changed."""
    some = {"of": SlotSource(0, "x"), "key": "a", "index": 0, "attr": "a"}
    fields = (field.name for field in dataclasses.fields(cls) if field.name in some)
    source = cls(**{name: some[name] for name in fields})
    assert not source.encode().runs_python
