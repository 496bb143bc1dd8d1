"""Twenty thousand checks, passing and failing, leave every reference count and the memory as they
were."""

from __future__ import annotations

import gc
import sys
from collections import OrderedDict

import pytest
import torch
from framejit.guards import source as s
from framejit.guards.guard import Guard, Kind, ShapeExpr, TensorSpec, TorchState
from framejit.guards.program import GuardProgram

X = s.SlotSource(0, "x")
OWN = s.InstanceDict(X)
ROUNDS = 20_000


class Thing:
    """One instance with everything that loads walk over."""

    def __init__(self):
        self.n = 10**20
        self.text = "".join(["te", "xt"])
        self.items = [1.5, (2.5, {"k": object()})]
        self.ordered = OrderedDict(a=1, b=2)
        self.tensor = torch.ones(3, 1000, 2)

    @property
    def made(self):
        return [self.n]


def function():
    pass


def own(attr):
    return s.DictItem(OWN, attr)


def guards_on(thing):
    return [
        Guard(X, Kind.TYPE, Thing),
        Guard(OWN, Kind.KEYS, tuple(vars(Thing()))),
        Guard(OWN, Kind.ABSENT, "forward"),
        Guard(own("n"), Kind.EQUALS, 10**20),
        Guard(own("text"), Kind.EQUALS, "text"),
        Guard(own("items"), Kind.LENGTH, 2),
        Guard(s.SequenceItem(s.SequenceItem(own("items"), 1), 0), Kind.EQUALS, 2.5),
        Guard(own("ordered"), Kind.KEYS, ("a", "b")),
        Guard(s.DictKey(own("ordered"), 1), Kind.EQUALS, "b"),
        Guard(own("tensor"), Kind.TENSOR, TensorSpec.of(thing.tensor)),
        Guard(s.SequenceItem(s.AttrSource(X, "made"), 0), Kind.EQUALS, 10**20),
        Guard(X, Kind.PYTHON, ("is there", lambda x: True)),
        Guard(own("text"), Kind.DISTINCT, (own("n"), own("items"))),
        Guard(own("text"), Kind.SAME, s.AttrSource(X, "text")),
        Guard(
            X,
            Kind.SHAPE,
            ShapeExpr("s0 == 1000", (("s0", s.TensorProperty(own("tensor"), "size", 1)),)),
        ),
        Guard(s.DictItem(s.ClassDict(s.TypeOf(X)), "made"), Kind.IS, Thing.made),
        Guard(s.MroItem(s.TypeOf(X), 1), Kind.IS, object),
        Guard(s.TorchStateSource(), Kind.TORCH_STATE, TorchState.now()),
    ]


def counts(objects):
    for _ in range(5):  # older garbage holds shared objects like None, and may free more of it
        if not gc.collect():
            break
    return [sys.getrefcount(one) for one in objects]


def watched(thing):
    of = [
        thing,
        thing.n,
        thing.text,
        thing.items,
        thing.items[1],
        thing.items[1][1]["k"],
        thing.ordered,
        thing.tensor,
    ]
    return [*of, Thing, vars(Thing)["made"], object, type, None, True, "b", function, TensorSpec]


def steady(run):
    """Does memory stay as it is over many runs? (Not over the first ones, which fill CPython's free
    lists.)"""
    gc.collect()
    gc.disable()
    try:
        run(ROUNDS)
        blocks = sys.getallocatedblocks()
        run(ROUNDS)
        return abs(sys.getallocatedblocks() - blocks) < 200
    finally:
        gc.enable()


@pytest.mark.parametrize("case", ["passes", "fails late", "fails early"])
@pytest.mark.parametrize("method", ["check", "lifted"])
def test_checks_leak_nothing(case, method):
    thing = Thing()
    last = {
        "fails late": [Guard(X, Kind.PYTHON, ("never", lambda x: False))],
        "fails early": [Guard(own("gone"), Kind.IS, 1)],
    }
    lifted = [
        own("items"),
        s.AttrSource(X, "made"),
        s.TensorProperty(own("tensor"), "size", 1),
        OWN,
    ]
    native = GuardProgram.build(guards_on(thing) + last.get(case, []), lifted).native()
    call, slots = getattr(native, method), (thing,)
    assert bool(call(slots, function)) is (case == "passes")

    def run(rounds):
        for _ in range(rounds):
            call(slots, function)

    objects = watched(thing)
    before = counts(objects)
    assert steady(run)
    assert [
        after - was
        for was, after in zip(before, counts(objects), strict=True)
        if abs(after - was) > 50
    ] == []


def test_programs_leak_nothing():
    thing = Thing()
    guards = guards_on(thing)
    steps = GuardProgram.build(guards)
    objects = watched(thing)

    def run(rounds):
        for _ in range(rounds // 4):
            native = GuardProgram(steps.guards, steps.lifted, steps.steps, steps.temps).native()
            native.check((thing,), function)

    before = counts(objects)
    assert steady(run)
    assert [
        after - was
        for was, after in zip(before, counts(objects), strict=True)
        if abs(after - was) > 50
    ] == []
