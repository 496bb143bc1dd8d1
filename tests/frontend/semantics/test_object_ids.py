"""id() of objects that existed before, members of flags in turn, and named tuples that hold more
than their fields."""

from __future__ import annotations

import collections
import enum

import framejit
import torch

from .harness import check, vec


class Colour(enum.Flag):
    RED = 1
    GREEN = 2
    BLUE = 4


class Pair(collections.namedtuple("Pair", "a b")):
    pass


class Slim(collections.namedtuple("Slim", "a b")):
    __slots__ = ()

    def total(self):
        return self.a + self.b


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(2, 2)
        self.calls = {}

    def forward(self, x):
        self.calls[id(self.inner)] = self.calls.get(id(self.inner), 0) + 1
        return self.inner(x)


PURPLE = Colour.RED | Colour.BLUE
NOTED = Pair(1, 2)
NOTED.note = 5
THINGS = [NOTED, PURPLE]


def test_ids_of_what_existed():
    def f(x):
        return x * 2, id(THINGS), id(Colour), id(enum), id(check)

    check(f, vec(2), graphs=1)


def test_ids_tell_tensors_apart():
    def f(x, y):
        return x + y, id(x) == id(y)

    compiled = framejit.compile(f)
    x, others = vec(2), [vec(2) for _ in range(12)]
    assert [compiled(x, other)[1] for other in others] == [False] * 12 and compiled(x, x)[1]


def test_an_id_as_a_key():
    layer = Layer()
    compiled = framejit.compile(layer)
    for _ in range(3):
        compiled(torch.ones(1, 2))
    assert layer.calls == {id(layer.inner): 3}


def test_members_of_a_flag_in_turn():
    def f(x):
        for member in PURPLE:
            x = x * member.value
        return x, [member.name for member in Colour.RED | Colour.GREEN], list(Colour(0))

    check(f, vec(2), graphs=1)


def test_signs_of_counters():
    def f(x):
        counted = collections.Counter(a=2, b=-1, c=0)
        return x + 1, +counted, -counted

    check(f, vec(2), graphs=1)


def test_a_named_tuple_with_attributes():
    def f(x):
        try:
            seen = NOTED.note
        except AttributeError:
            seen = None
        return (
            x + NOTED.a,
            seen,
            hasattr(NOTED, "note"),
            getattr(NOTED, "other", 3),
            NOTED[1],
            [*NOTED],
            NOTED._asdict(),
        )

    check(f, vec(2), graphs=1)


def test_a_class_below_a_named_tuple():
    def f(x):
        return (
            x + Slim(1, b=2).total(),
            Slim(5, 6),
            Slim(5, 6)._replace(a=7),
            Slim(1, 2) == Slim(1, 2),
        )

    check(f, vec(2), graphs=1)
