"""Objects whose attributes are in a dictionary that other objects, or the program, refer to."""

from __future__ import annotations

import pytest
import torch

from ...semantics.harness import strict_compile, vec


class Shared:
    held: dict = {}

    def __init__(self):
        self.__dict__ = self.held


class Given:
    def __init__(self, held):
        self.__dict__ = held


class InSlots:
    __slots__ = ("a", "__dict__")


class Fault(Exception):
    def __init__(self, held):
        self.__dict__ = held


def of_one_class(x, one, other):
    one.n = 5
    return x * other.n


def read_as_a_dictionary(x, one, other):
    one.n = 5
    return x * other.__dict__["n"] + one.__dict__["n"]


def through_the_dictionary(x, one, other):
    Shared.held["n"] = 5
    del Shared.held["k"]
    return x * one.n, hasattr(other, "k"), vars(one) is vars(other)


def of_a_new_one(x, one, other):
    one.n = 5
    new = Shared()
    new.n += 1
    new.m = x
    return other.n * other.m, sorted(vars(new)), new


def of_new_ones(x, one, other):
    held = {"k": x}
    given = Given(held)
    given.j = x + 1
    given.__dict__["z"] = given.k * 2
    del given.k
    return held, given, vars(given) is held, given.z


def assigned_twice(x, one, other):
    given = Given({"k": x})
    given.__dict__ = {"k": x * 3}
    return given.k, given


def assigned_late(x, one, other):
    given = Given({})
    given.a = x
    given.__dict__ = Shared.held
    return given, sorted(vars(given))


def with_slots(x, one, other):
    new = InSlots()
    new.__dict__ = {"b": x}
    new.a = x + 1
    return new.a, new.b, vars(new)


def of_an_exception(x, one, other):
    error = Fault({"a": x})
    error.b = x
    return error.a, vars(error), vars(error)["b"]


@pytest.mark.parametrize(
    "function",
    [of_one_class, read_as_a_dictionary, through_the_dictionary, of_a_new_one, of_new_ones,
     assigned_twice, assigned_late, with_slots, of_an_exception],
    ids=lambda function: function.__name__,
)  # fmt: skip
def test_a_store_is_seen_by_all_that_share_the_dictionary(function):
    handle = strict_compile(function, backend="eager")
    seen = []
    for run in (function, function, handle, handle):
        Shared.held.clear()
        Shared.held.update(n=1, k=2)
        result = run(vec(2), Shared(), Shared())
        told = [vars(one) if isinstance(one, Shared | Given) else one for one in result]
        seen.append((str(told), str(Shared.held)))
    assert seen[1] == seen[3] and seen[0] == seen[2]


def test_sharing_is_guarded():
    handle = strict_compile(of_one_class, backend="eager")
    shared = {"n": 1}
    for dictionaries in ((shared, shared), ({"n": 1}, {"n": 2}), (shared, shared)):
        one, other = map(Given, dictionaries)
        kept = other.n
        expected = 5 if dictionaries[0] is dictionaries[1] else kept
        assert torch.equal(handle(vec(2), one, other), vec(2) * expected)
        shared["n"] = 1
