"""Guards as rows of plain values: what is read is what was written."""

from __future__ import annotations

import math

import pytest
import torch
from framejit.frontend.runtime.stored.guard_table import GuardTable, make_table, read_table
from framejit.guards.guard import Guard, Kind, TensorSpec
from framejit.guards.program import GuardProgram
from framejit.guards.source import AttrSource, DictItem, InstanceDict, SlotSource
from framejit.guards.steps import native_step

X = SlotSource(0, "x")
WEIGHT = AttrSource(AttrSource(X, "layer"), "weight")


def again(guards, lifted=()):
    program = GuardProgram.build(guards, lifted)
    table = make_table(program)
    found = read_table(GuardTable.decode(table.encode(), table.objects))
    assert str(found) == str(program) and found.temps == program.temps
    assert repr([*map(native_step, found.steps)]) == repr([*map(native_step, program.steps)])
    return found.guards, found.lifted


@pytest.mark.parametrize(
    "guard",
    [
        Guard(X, Kind.TYPE, list, "file.py:3"),
        Guard(X, Kind.IS, None),
        Guard(WEIGHT, Kind.TENSOR, TensorSpec.of(torch.ones(2, 3))),
        Guard(X, Kind.KEYS, ("a", 1)),
        Guard(X, Kind.SAME, WEIGHT),
        Guard(X, Kind.DISTINCT, (WEIGHT, AttrSource(X, "other"))),
        Guard(DictItem(InstanceDict(X), ("a", 2)), Kind.EQUALS, 1.5),
        Guard(X, Kind.EQUALS, True),
        Guard(X, Kind.EQUALS, -0.0),
        Guard(X, Kind.EQUALS, 10**30),
        Guard(X, Kind.EQUALS, "\ud800"),
    ],
)
def test_a_guard_is_read_as_it_was(guard):
    (found,), _ = again([guard])
    assert found == guard and repr(found) == repr(guard)
    assert type(found.expected) is type(guard.expected)


def test_a_nan_stays_one():
    (found,), _ = again([Guard(X, Kind.EQUALS, math.nan)])
    assert math.isnan(found.expected)


def test_paths_are_shared_and_objects_stay_themselves():
    known = object()
    guards, lifted = again(
        [Guard(WEIGHT, Kind.IS, known), Guard(WEIGHT.of, Kind.IS, known)], [WEIGHT, X]
    )
    assert guards[1].source.of is guards[0].source and lifted[0] is guards[1].source
    assert guards[0].expected is guards[1].expected is known


def test_a_lifted_path_that_no_guard_has():
    """An equal one, which is another object."""
    layer = AttrSource(SlotSource(0, "x"), "layer")
    _, lifted = again([Guard(WEIGHT, Kind.IS, None)], [layer])
    assert lifted == (layer,)


def test_the_identity_has_no_lines():
    one, other, third = (
        make_table(GuardProgram.build([Guard(X, Kind.LENGTH, length, line)])).identity(str)
        for length, line in ((1, "a.py:1"), (1, "b.py:2"), (2, "a.py:1"))
    )
    assert one == other != third
