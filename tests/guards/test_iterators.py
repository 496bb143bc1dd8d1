"""Looking into iterators: C's answers are Python's, and nothing moves."""

from __future__ import annotations

import collections
import itertools
from typing import Any

import pytest
from framejit.guards import source as s
from framejit.guards.guard import Guard, Kind
from framejit.guards.iterators import peek, remaining
from framejit.guards.native import move_index
from framejit.guards.program import GuardProgram
from framejit.guards.reference import check
from framejit.guards.source import FrameView

X = s.SlotSource(0, "x")
D = {"a": 1, "b": 2, "c": 3}
MADE = {
    "list": lambda: iter([1, 2, 3]), "tuple": lambda: iter((1, 2, 3)), "range": lambda: iter(range(3)),
    "backwards": lambda: reversed([1, 2, 3]),
    "backward tuple": lambda: reversed((1, 2, 3)), "keys": lambda: iter(dict(D)), "values": lambda: iter(dict(D).values()),
    "items": lambda: iter(dict(D).items()), "backward items": lambda: reversed(dict(D).items()), "set": lambda: iter({1, 2, 3}),
    "ordered": lambda: iter(collections.OrderedDict(D)), "repeat": lambda: itertools.repeat(1, 3), "endless": lambda: itertools.repeat(1),
    "str": lambda: iter("abc"), "others": lambda: (n for n in range(3)),
}  # fmt: skip


def function() -> None:
    pass


def agree(iterator: Any) -> list[bool]:
    """What C and Python say, which is the same, of counts from 0 to 4."""
    said = []
    for count in range(5):
        for exactly in (False, True):
            guard = Guard(X, Kind.REMAINING, (count, exactly, type(iterator)))
            said.append(GuardProgram.build([guard]).native().check((iterator,), function))
            assert said[-1] == check(guard, FrameView((iterator,), function)), (count, exactly)
        guard = Guard(s.IteratorItem(X, count), Kind.TYPE, int)
        assert GuardProgram.build([guard]).native().check((iterator,), function) == check(
            guard, FrameView((iterator,), function)
        )
    return said


@pytest.mark.parametrize("steps", range(5))
@pytest.mark.parametrize("name", [name for name in MADE if name != "others"])
def test_items_left(name, steps):
    iterator = MADE[name]()
    taken = [next(iterator, None) for _ in range(steps)]
    agree(iterator)
    again = MADE[name]()
    assert taken + list(itertools.islice(iterator, 9)) == [
        next(again, None) for _ in range(steps)
    ] + list(itertools.islice(again, 9))


@pytest.mark.parametrize("view", ["keys", "values", "items"])
@pytest.mark.parametrize("change", [
    lambda d: d.update(new=4), lambda d: d.pop("a"), lambda d: (d.pop("a"), d.update(new=4)), lambda d: (d.pop("c"), d.update(new=4)),
    lambda d: d.clear(), lambda d: d.update(a=5),
])  # fmt: skip
def test_a_changed_dictionary(change, view):
    for steps in range(4):
        d = dict(D)
        iterator = iter(getattr(d, view)())
        for _ in range(steps):
            next(iterator)
        change(d)
        said = agree(iterator)
        try:
            left = len(list(iterator))
        except RuntimeError:
            assert not any(said)
        else:
            assert said[1::2] == [count == left for count in range(5)]


def test_peeking_moves_nothing():
    for name, make in MADE.items():
        if name not in ("endless", "others"):
            iterator, twin = make(), make()
            assert (
                [peek(iterator, index) for index in range(remaining(iterator))]
                == list(twin)
                == list(iterator)
            )


def test_an_enumerate_gets_another_number():
    for start in (0, 5, 2**63 - 3, 2**63 - 1, 2**64):
        numbered = enumerate("abcdef", start)
        next(numbered)
        move_index(numbered, 3)
        assert [number for number, _ in numbered] == list(range(start + 4, start + 9))
    with pytest.raises(TypeError):
        move_index(iter([]), 1)


def test_a_deque_is_looked_into_where_it_lies():
    class Whole(collections.deque):
        def __copy__(self):
            raise AssertionError("a copy for each item takes quadratic time")

        __iter__ = __copy__

    held = Whole("abc")
    assert [peek(held, index) for index in range(3)] == ["a", "b", "c"]
    with pytest.raises(IndexError):
        peek(held, 3)
