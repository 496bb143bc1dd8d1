"""Dictionaries that keep an order of their own, and dictionaries whose class overrides what reads
them."""

from __future__ import annotations

import copy
from collections import Counter, OrderedDict, defaultdict

import framejit
import pytest

from ...semantics.harness import check, vec


class Linked(dict):
    """Its keys in a list of its own, as OrderedDict is written in Python: each method reads by
    another one."""

    def __init__(self, pairs=()):
        self.order = []
        for key, value in pairs:
            self[key] = value

    def __setitem__(self, key, value):
        if key not in self:
            self.order.append(key)
        dict.__setitem__(self, key, value)

    def __delitem__(self, key):
        dict.__delitem__(self, key)
        self.order.remove(key)

    def __iter__(self):
        yield from self.order

    def __len__(self):
        return len(self.order)

    def keys(self):
        return list(self)

    def items(self):
        return [(key, self[key]) for key in self.order]

    def __reduce__(self):
        return Linked, (self.items(),)


class Broken(dict):
    """All that a capture may ask it is a lie."""

    __len__ = lambda self: 99
    __iter__ = lambda self: iter(["lie"])
    __contains__ = lambda self, key: True
    __getitem__ = lambda self, key: "lie"
    items = lambda self: [("lie", 1)]
    keys = lambda self: ["lie"]
    values = lambda self: ["lie"]


class Recent(OrderedDict):
    def __getitem__(self, key):
        value = super().__getitem__(key)
        self.move_to_end(key)
        return value


class Below(OrderedDict):
    pass


class DefaultBelow(defaultdict):
    pass


def moved(cls=OrderedDict):
    made = cls([("a", 1), ("b", 2), ("c", 3)])
    made.move_to_end("a")
    return made


def linked(x, d):
    y = x + 1
    d["new"] = y
    d["a"] = 5
    if "b" in d:
        del d["b"]
    return y, list(d), list(d.items()), len(d), dict.__len__(d), "a" in d, d


def test_methods_of_its_own_are_not_asked():
    check(linked, vec(2), Linked([("a", 1), ("b", 2)]))


def past_lies(x, d):
    dict.__setitem__(d, "b", 2)
    seen = (
        dict.__len__(d),
        dict.get(d, "a"),
        dict.__contains__(d, "c"),
        list(dict.items(d)),
        list(dict.keys(d)),
    )
    dict.pop(d, "a", None)
    return x + 1, seen, list(dict.values(d))


def test_lies():
    check(past_lies, vec(2), Broken(a=1))


def recent(x, d):
    y = x * d["b"]
    d["q"] = 4
    return y, list(d), list(d.items())


def test_a_read_that_moves():
    check(recent, vec(2), moved(Recent))


def views(x, d):
    return (
        x + 1,
        d.keys(),
        d.values(),
        d.items(),
        [type(view) for view in (d.keys(), d.values(), d.items())],
    )


@pytest.mark.parametrize(
    "made", [moved, lambda: {"a": 1}, lambda: defaultdict(int, a=1), lambda: Counter(a=1)]
)
def test_views(made):
    check(views, vec(2), made())


def views_made(x):
    d = OrderedDict(a=1, b=x * 2)
    d.move_to_end("a")
    return x + 1, d.items(), type(d.values()), list(d)


def test_views_of_one_made_inside():
    check(views_made, vec(2))


def copies(x, d):
    made = d.copy()
    made["new"] = x * 2
    return x + 1, made, type(made), d


@pytest.mark.parametrize("made", [moved, lambda: moved(Below), lambda: defaultdict(int, a=1), lambda: DefaultBelow(int, a=1),
                                  lambda: Counter(a=1), lambda: {"a": 1}])  # fmt: skip
def test_copies(made):
    check(copies, vec(2), made(), graphs=None, breaks=None)


def plain_copy(x, d):
    made = dict.copy(d)
    return x + 1, made, type(made)


@pytest.mark.parametrize(
    "made", [lambda: defaultdict(int, a=1), lambda: DefaultBelow(int, a=1), lambda: Counter(a=1)]
)
def test_copies_by_dict(made):
    check(plain_copy, vec(2), made())


def copied(x, d):
    one, other = copy.copy(d), copy.deepcopy(d)
    return x + 1, one, other, getattr(one, "mark", 0), getattr(other, "mark", 0)


def test_copies_have_the_attributes():
    d = moved()
    check(copied, vec(2), d, graphs=1, breaks=())
    d.mark = ["m"]
    check(copied, vec(2), d, graphs=None, breaks=("unknown-call", "unknown-call"))


def attributes(x, d):
    return (
        x + 1,
        getattr(d, "mark", None),
        hasattr(d, "mark"),
        hasattr(d, "other"),
        hasattr(d, "items"),
    )


def test_attributes():
    d, x, compiled = moved(), vec(2), framejit.compile(attributes)
    for mark in (None, ["m"], ["n"]):
        if mark is not None:
            d.mark = mark
        assert compiled(x, d)[1:] == attributes(x, d)[1:]


PAST_ORDER = {
    "del": lambda d: dict.__delitem__(d, "a"), "pop": lambda d: dict.pop(d, "a"), "popitem": lambda d: dict.popitem(d),
    "set": lambda d: dict.__setitem__(d, "q", 1), "update": lambda d: dict.update(d, q=1), "copy": lambda d: dict.copy(d),
    "setdefault": lambda d: dict.setdefault(d, "q", 1), "keys": lambda d: list(dict.keys(d)), "iter": lambda d: list(dict.__iter__(d)),
}  # fmt: skip


def past_order(x, what):
    y = x + 1
    d = OrderedDict(a=1, b=2)
    answer = what(d)
    try:
        return y, answer, repr(d)
    except KeyError as error:
        return y, answer, error.args


@pytest.mark.parametrize("what", PAST_ORDER)
def test_past_the_order(what):
    check(past_order, vec(2), PAST_ORDER[what], graphs=None, breaks=None)


def out_of_step(x, d):
    y = x + 1
    try:
        return y, list(d.items()), dict.__len__(d)
    except KeyError as error:
        return y, error.args


def test_keys_that_the_order_does_not_know():
    d = OrderedDict(a=1, b=2)
    dict.__delitem__(d, "a")
    d_more = OrderedDict(a=1)
    dict.__setitem__(d_more, "b", 2)
    for made in (d, d_more):
        check_once(out_of_step, made)


def check_once(f, d):
    """As check(), for what cannot be copied."""
    x = vec(2)
    plain, compiled = f(x, d), framejit.compile(f)(x, d)
    assert repr(plain) == repr(compiled)


class Key:
    def __hash__(self):
        return 7


def values_by_object(x, d):
    return x + 1, list(d.values())


def test_objects_as_keys_out_of_order():
    d = OrderedDict([(Key(), 1), ("b", 2)])
    d.move_to_end(next(iter(d)))
    check(values_by_object, vec(2), d, graphs=None, breaks=None)


class Ready:
    def __init__(self, **named):
        self.named = named


class Asking(dict):
    def keys(self):
        print(end="")
        return ["b", "a"]

    def __getitem__(self, key):
        return key * 2


def merged_keywords(x, d):
    y = x + 1
    made = Ready(**d)
    plain = dict(first=y, **d)
    return y, made.named, plain


def test_keywords_of_a_mapping_that_breaks():
    check(merged_keywords, vec(2), Asking(a=1), graphs=None, breaks=None)


def by_name(x, d, name):
    ask = getattr(d, name)
    y = x + 1
    print(end="")
    return y, list(ask())


def test_bound_methods_by_name():
    x, compiled = vec(2), framejit.compile(by_name)
    for name in ("keys", "values", "items", "keys"):
        d = OrderedDict(a=1, b=2)
        assert compiled(x, d, name)[1] == by_name(x, d, name)[1]
