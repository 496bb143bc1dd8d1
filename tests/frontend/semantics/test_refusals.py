"""What Python refuses, compiled code refuses too. CPython's own tests, which expect these
errors, found the cases."""

from __future__ import annotations

import collections

import pytest

from .harness import check, vec


class Empty:
    __slots__ = ()


class Plain:
    pass


class Takes:
    def __init__(self, a):
        self.a = a


class NoAdd:
    def __add__(self, other):
        return 1

    __iadd__ = None


class Pair:
    __match_args__ = ("a",)

    def __init__(self):
        self.a = 1


def no_place_for_it(x):
    Empty().a = 1


def object_without_attributes(x):
    object().a = 1


def arguments_for_object(x):
    Plain(1)


def arguments_for_object_new(x):
    object.__new__(Plain, 1)


def arguments_for_object_init(x):
    object.__init__(Plain(), 1)


def blocked(x):
    n = NoAdd()
    n += 1


def too_many_patterns(x):
    match Pair():
        case Pair(1, 2):
            return x


def asked_twice(x):
    match Pair():
        case Pair(1, a=1):
            return x


def super_of_another(x):
    super(Takes, Plain()).a  # noqa: B018


def key_deleted(x):
    d = {0: 1}
    for _ in d:
        del d[0]
        d[0] = 1


def keyword_no_string(x):
    dict(**{1: 2})


@pytest.mark.parametrize(
    "f",
    [no_place_for_it, object_without_attributes, arguments_for_object, arguments_for_object_new, arguments_for_object_init, blocked,
     too_many_patterns, asked_twice, super_of_another, key_deleted, keyword_no_string],
)  # fmt: skip
def test_refused(f):
    def g(x):
        y = x + 1
        try:
            f(x)
        except (TypeError, AttributeError, RuntimeError) as error:
            return y * 2, type(error), str(error)
        return y

    check(g, vec(2), graphs=None, breaks=None)


def test_not_refused():
    class AttrDict(dict):
        __setattr__ = dict.__setitem__
        __getattr__ = dict.__getitem__

    Point = collections.namedtuple("Point", "x y")

    def f(x, items):
        d = AttrDict()
        d.y = 42
        p = Point(1, 2)
        found = []
        match Pair():
            case Pair(b=1):
                found.append("b")
            case Pair(1):
                found.append("a")
        made = items.append
        return (
            x + d["y"],
            d.y,
            p.__class__ is Point,
            repr(p),
            found,
            made == items.append,
            AttrDict.fromkeys("ab"),
        )

    check(f, vec(2), [], graphs=None, breaks=None)
