"""Deques: one that a comparison changes, one that changes under its iterator."""

from __future__ import annotations

import collections
from collections import deque
from weakref import proxy

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
