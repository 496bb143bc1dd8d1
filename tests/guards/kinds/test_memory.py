"""MEMORY: which tensors overlap. C and the reference must agree on random views, and on tensors
that get other memory."""

from __future__ import annotations

from random import Random

import pytest
import torch
from framejit.guards import source as s
from framejit.guards.guard import Guard, Kind, MemoryRelation
from framejit.guards.kinds.memory import overlap, pairs, windows_of
from framejit.guards.program import GuardProgram
from framejit.guards.reference import check, explain
from framejit.guards.source import FrameView


def relation(tensors, written, history=0, alone=(), expected=None, plain=True):
    """The guard that says how tensors in the first slots overlap now, or that the pairs `expected`
    do."""
    sources = tuple(s.SlotSource(index, f"x{index}") for index in range(len(tensors)))
    sizes = tuple(tensor.element_size() for tensor in tensors)
    drawn = MemoryRelation(
        sources[1:], sizes, written, history, tuple(alone), frozenset(expected or ()), plain
    )
    if expected is None:
        windows = windows_of(drawn, tensors)
        found = frozenset(pair for pair in pairs(drawn) if overlap(drawn, windows, *pair))
        drawn = MemoryRelation(sources[1:], sizes, written, history, tuple(alone), found, plain)
    return Guard(sources[0], Kind.MEMORY, drawn)


def view(random, base):
    """A window on a base: a slice, steps, columns, a transpose, something expanded, unfolded, of
    another dtype."""
    rows = base.view(4, -1)
    at = random.randrange(4)
    forms = (
        lambda: base[at : at + random.randint(0, 20)], lambda: rows[at], lambda: rows[:, at], lambda: rows[:, at : at + 2],
        lambda: rows[at % 2 :: 2], lambda: rows.t()[at:], lambda: rows.chunk(2, 1)[at % 2], lambda: rows[at].expand(3, -1),
        lambda: base.unfold(0, 4, 2)[:, :2], lambda: base.as_strided((2, 3), (at, 2), at), lambda: base.view(torch.int16)[at::3],
        lambda: base.detach(), lambda: base, lambda: torch.nn.Parameter(rows[at:]), lambda: torch.empty(0), lambda: torch.empty(2, 3),
        lambda: base[at].clone(), lambda: base.view(2, 1, 2, 1, 2, -1),
    )  # fmt: skip
    return random.choice(forms)()


@pytest.mark.parametrize("seed", range(30))
def test_native_agrees_with_reference(seed):
    random, seen = Random(seed), set()
    for _ in range(20):
        bases = [torch.arange(48.0), torch.arange(48.0)]
        tensors = [view(random, random.choice(bases)) for _ in range(random.choice((2, 3, 5, 9)))]
        written = random.randint(1, len(tensors))
        history = random.choice((0, 0, random.randint(0, written)))
        alone = sorted(random.sample(range(written), random.randint(0, written)))
        guard = relation(tensors, written, history, alone, () if random.random() < 0.4 else None)
        program = GuardProgram.build([guard])
        native = program.native()
        for _ in range(6):
            frame = FrameView(tuple(tensors), view)
            expected = check(guard, frame)
            seen.add(expected)
            assert native.check(frame.slots, view) is expected, (
                f"{program}\n{windows_of(guard.expected, tensors)}"
            )
            if not expected:
                assert explain(guard, frame).new
            one, other = random.randrange(len(tensors)), view(random, random.choice(bases))
            if random.random() < 0.3 and tensors[one].dtype == other.dtype:
                tensors[one] = tensors[one].detach()
                tensors[one].data = other  # the object stays, its memory does not
            elif random.random() < 0.8:
                tensors[one] = other
    assert seen == {True, False}


@pytest.mark.parametrize("count", [2, 60, 200])
def test_many_tensors_of_which_some_move(count):
    """As a module's buffers beside fresh inputs: below and above what is compared pair by pair."""
    base = torch.zeros(4 * count)
    tensors = list(base.chunk(count))
    native = GuardProgram.build([relation(tensors, count // 2, expected=())]).native()
    assert native.check(tuple(tensors), view) and native.check(tuple(tensors), view)
    fresh = [torch.zeros(4) for _ in tensors]
    assert native.check((*fresh[: count // 2], *tensors[count // 2 :]), view)
    assert native.check(tuple(fresh), view)
    for one, other in ((0, count - 1), (0, 1), (count // 2 - 1, count // 2)):
        for made in (fresh, tensors):
            wrong = list(made)
            wrong[one] = made[other][1:]
            assert native.check(tuple(wrong), view) is not (min(one, other) < count // 2)
            assert native.check(tuple(made), view)
    if count > 2:
        only_read = list(fresh)
        only_read[-1] = fresh[-2]
        assert native.check(tuple(only_read), view)  # neither is written


def test_what_only_interleaves_is_looked_at_each_time():
    rows = torch.zeros(4, 6)
    native = GuardProgram.build([relation([rows[:, 0], rows[:, 1]], 1)]).native()
    assert native.check((rows[:, 0], rows[:, 1]), view) and native.check(
        (rows[:, 0], rows[:, 3]), view
    )
    wider = (
        rows.as_strided((4, 2), (6, 1)),
        rows.as_strided((3, 6), (6, 1), 1),
    )  # the same first bytes, and the same last ones
    assert not native.check(wider, view) and native.check((rows[:, 0], rows[:, 1]), view)


def test_one_storage_counts_for_those_that_gain_a_history():
    base = torch.zeros(8)
    guard = relation([base[:4], torch.zeros(4)], 1, history=1)
    native = GuardProgram.build([guard]).native()
    assert native.check((base[:4], torch.zeros(4)), view)
    assert not native.check((base[:4], base[4:]), view) and not check(
        guard, FrameView((base[:4], base[4:]), view)
    )


def test_what_is_no_plain_tensor_fails():
    guard = relation([torch.zeros(4), torch.zeros(4)], 1)
    for other in (3, torch.zeros(4).to_sparse(), torch.nn.parameter.UninitializedParameter()):
        frame = FrameView((torch.zeros(4), other), view)
        assert not GuardProgram.build([guard]).native().check(frame.slots, view) and not check(
            guard, frame
        )


@pytest.mark.usefixtures("level")
def test_both_ways_of_reading_tensors():
    base = torch.arange(8.0)
    native = GuardProgram.build([relation([base[:4], base[4:]], 1)]).native()
    assert native.check((base[:4], base[4:]), view) and not native.check(
        (base[:4], base[3:7]), view
    )


class Named(torch.Tensor):
    """Not plain: Python reads where it is."""


def test_tensors_that_python_must_read():
    base = torch.arange(8.0)
    named = base[4:].as_subclass(Named)
    native = GuardProgram.build([relation([base[:4], named], 1, plain=False)]).native()
    assert native.check((base[:4], named), view) and not native.check((base[:5], named), view)


def test_expressions_name_what_overlaps():
    base = torch.arange(8.0)
    assert (
        str(GuardProgram.build([relation([base[:4], base[4:]], 1)]).expression())
        == "no_overlap(x0, x1)"
    )
    overlapping = GuardProgram.build([relation([base[:4], base[3:]], 1)])
    assert "overlap(x0, x1)" in overlapping.expression()
    failure = explain(overlapping.guards[0], FrameView((base[:4], base[4:]), view))
    assert (failure.old, failure.new) == ("shared", "apart") and "x0 and x1" in str(failure)
