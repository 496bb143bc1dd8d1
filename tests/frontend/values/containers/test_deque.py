"""Deques: one that a comparison changes, one that changes under its iterator."""

from __future__ import annotations

import collections
from collections import deque
from weakref import proxy, ref

import framejit
import pytest
import torch

from ...semantics.harness import check, vec


class Clears:
    """Equal to nothing; a comparison empties the deque."""

    def __init__(self, items):
        self.items = items

    def __eq__(self, other):
        self.items.clear()
        return NotImplemented


@pytest.mark.parametrize("use", [lambda items: 3 in items, lambda items: items.count(3)])
@pytest.mark.parametrize("backend", ["eager", "native"])
def test_a_comparison_that_changes_a_deque_raises(use, backend):
    def f(x):
        items = collections.deque()
        items.extend([Clears(items), Clears(items)])
        return x + use(items)

    for fn in (f, framejit.compile(f, backend=backend)):
        with pytest.raises(RuntimeError, match="deque mutated during iteration"):
            fn(torch.ones(2))


class Stirring:
    def __init__(self, of):
        self.of = of

    def __eq__(self, other):
        self.of.rotate(1)
        return NotImplemented

    __hash__ = None


ASKED = {
    "in": lambda d: 3 in d, "count": lambda d: d.count(3), "index": lambda d: d.index(3), "remove": lambda d: d.remove(3),
}  # fmt: skip


def asked(x, what):
    y = x + 1
    d = deque()
    d.extend([Stirring(proxy(d)), 5])
    try:
        return y, what(d)
    except (RuntimeError, IndexError, ValueError) as error:
        return y, type(error), error.args


@pytest.mark.parametrize("what", ASKED)
def test_deques_that_change_while_they_are_asked(what):
    check(asked, vec(2), ASKED[what], graphs=None, breaks=None)


def set_while_walked(x, d):
    walk = iter(d)
    y = x * 2
    print(end="")
    for index in range(len(d)):
        d[index] = (y, index)
    d[0], d[1] = d[1], d[0]
    print(end="")
    return y, list(walk), d


def changed_while_walked(x, d):
    walk = iter(d)
    y = x * 2
    print(end="")
    d.append(d.popleft())
    print(end="")
    try:
        return y, list(walk), d
    except RuntimeError as error:
        return y, error.args, d


@pytest.mark.parametrize("f", [set_while_walked, changed_while_walked])
def test_deques_and_their_iterators(f):
    check(f, vec(2), deque([1, 2, 3]), graphs=None, breaks=None)


def sum_of_ends(x, d):
    return x + d[0] + d[-1]


def test_large_deques():
    check(sum_of_ends, vec(2), deque(range(10_000)), graphs=None, breaks=None)


def appended(x, d):
    d.append(x.sum().item())
    return x + 1


def appended_with_an_end(x, d):
    d.append(x.sum().item())
    return x + 1, d[-1]


def extended(x, d):
    d.extend([x.sum(), "a"])
    d += (1, 2)
    return x + 1


def emptied(x, d):
    d.clear()
    d.append(x * 2)
    return x + 1


def counted(x, d):
    d.append(1)
    return x + len(d), len(d), not d


def before_the_end(x, d):
    d.append(d[-1] + 1 if d else 0)
    d.append(-1)
    return x + d[-2], d[-1], d.pop()


ADDING = (appended, appended_with_an_end, extended, emptied)


@pytest.mark.parametrize("most", [None, 0, 1, 4])
@pytest.mark.parametrize("f", [*ADDING, counted, before_the_end], ids=lambda f: f.__name__)
def test_what_is_added_to_a_deque(f, most):
    """An addition at the end needs nothing of what the deque holds."""
    handle, mine, its = framejit.compile(f, backend="eager"), deque([], most), deque([], most)
    for step in range(9):
        x = torch.full((2,), step * 0.25)
        outcomes = []
        for fn, kept in ((handle, mine), (f, its)):
            try:
                outcomes.append(repr(fn(x.clone(), kept)))
            except IndexError as error:
                outcomes.append(str(error))
        assert outcomes[0] == outcomes[1]
        assert repr(mine) == repr(its) and mine.maxlen == most
    most_compiles = 3 if f in ADDING else 9
    assert handle.framejit.compiles <= most_compiles, handle.framejit.explain()


class Held:
    pass


def alive_after_an_addition(x, d, reference):
    d.append(1)
    return x + 1, reference() is None


def test_an_addition_drops_an_item_of_a_full_deque():
    handle = framejit.compile(alive_after_an_addition, backend="eager")
    for fn in (alive_after_an_addition, handle, handle):
        full = deque([Held()], 1)
        assert fn(torch.ones(2), full, ref(full[0]))[1] is True
        room = deque([Held()], 2)
        assert fn(torch.ones(2), room, ref(room[0]))[1] is False


def test_a_large_deque_gets_items():
    handle, kept = framejit.compile(appended, backend="eager"), deque(range(10_000))
    for step in range(3):
        handle(torch.full((2,), float(step)), kept)
    assert [*kept][-3:] == [0.0, 2.0, 4.0] and handle.framejit.compiles <= 2
