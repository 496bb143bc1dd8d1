"""One question to both evaluators: they must agree."""

from __future__ import annotations

from types import FunctionType

import pytest
from framejit.guards.guard import Guard
from framejit.guards.native import layout
from framejit.guards.program import GuardProgram
from framejit.guards.reference import check
from framejit.guards.source import FrameView


def plain(x):
    return x


@pytest.fixture
def holds():
    """holds(guard or guards, *slots, function=...) -> bool, the same in C and in the reference."""

    def ask(guards, *slots, function: FunctionType = plain) -> bool:
        guards = [guards] if isinstance(guards, Guard) else list(guards)
        frame = FrameView(slots, function)
        program = GuardProgram.build(guards)
        by_reference = all(check(guard, frame) for guard in guards)
        by_native = program.native().check(slots, function)
        assert by_native == by_reference, f"native {by_native}, reference {by_reference}\n{program}"
        return by_native

    return ask


@pytest.fixture(params=["offsets", "python"])
def level(request):
    """Each way of checking tensors."""
    assert layout.layout() is not None, (
        "no unique calibration for this torch, which is one of those supported"
    )
    layout.force(request.param)
    yield request.param
    layout.force(None)
