"""`|` and `|=` of dictionaries of all classes, and operators of lists of a class of the
program's."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict

import pytest

from ...semantics.harness import check, vec


class Table(dict):
    pass


class Loud(dict):
    def __or__(self, other):
        return "loud"

    def __ior__(self, other):
        self["loud"] = 1
        return self


class Ordered(OrderedDict):
    def __setitem__(self, key, value):
        super().__setitem__(key, (value, "set"))


class Default(defaultdict):
    pass


class Lists(defaultdict):
    def __init__(self):
        super().__init__(list)


class Tally(Counter):
    pass


class Shown(dict):
    def __getitem__(self, key):
        return "shown"

    def keys(self):
        return ["shown"]


MADE = {
    "dict": lambda: {"a": 1, 1: 2}, "table": lambda: Table(a=1, b=2), "loud": lambda: Loud(a=1), "ordered": lambda: OrderedDict(a=1),
    "ordered_below": lambda: Ordered(a=1), "default": lambda: defaultdict(list, a=1), "default_below": lambda: Default(int, a=1),
    "counter": lambda: Counter(a=2), "tally": lambda: Tally("aab"),
}  # fmt: skip
OTHERS = {"dict": lambda: {1.0: 5, "c": 6, "a": 3}, "ordered": lambda: OrderedDict(c=1), "counter": lambda: Counter(c=1),
          "table": lambda: Table(c=1), "default": lambda: defaultdict(int, c=1)}  # fmt: skip


def factory_of(d):
    return getattr(d, "default_factory", "none")


def merge(x, d, e):
    first, second = d | e, e | d
    return x + 1, first, second, type(first), type(second), factory_of(first), factory_of(second)


def merge_in_place(x, d, e):
    same = d
    d |= e
    return x + 1, d, same is d


def merge_pairs(x, d):
    d |= [("k", x * 2)]
    return x + 1, d


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("other", OTHERS)
def test_merge(made, other):
    check(merge, vec(2), MADE[made](), OTHERS[other](), graphs=None, breaks=None)


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("other", OTHERS)
def test_merge_in_place(made, other):
    check(merge_in_place, vec(2), MADE[made](), OTHERS[other](), graphs=None, breaks=None)


@pytest.mark.parametrize("made", [name for name in MADE if name not in ("counter", "tally")])
def test_merge_pairs(made):
    check(merge_pairs, vec(2), MADE[made](), graphs=None, breaks=None)


def made_inside(x):
    lists = Lists()
    lists["a"].append(x * 2)
    table = Table(a=1) | {"b": x}
    table |= {"c": 3}
    both = Default(int, {"q": 1}) | {"r": x}
    return lists, lists.default_factory, table, type(table), both, both["new"], type(both)


def test_made_inside():
    check(made_inside, vec(2), graphs=None, breaks=None)


def test_items_are_taken_past_methods():
    def f(x, d):
        taken = {}
        taken.update(d)
        return x + 1, taken, {**d}, dict(d), {} | d

    check(f, vec(2), Shown(a=1), graphs=None, breaks=None)


def test_refused():
    def f(x, d):
        try:
            d | [("a", 1)]
        except TypeError:
            return x + 1

    check(f, vec(2), Table(a=1), graphs=None, breaks=None)


class Items(list):
    def total(self):
        return sum(self)


class Appending(list):
    def __iadd__(self, other):
        self.append("appended")
        return self

    def __add__(self, other):
        return Appending([*self, "added"])


def operators(x, items):
    return (
        x + 1,
        [type(made) for made in (items + [1], [1] + items, items * 2, 2 * items)],
        items + [1],
        [1] + items,
        items * 2,
        2 * items,
    )


def in_place(x, items):
    same = items
    items += [x * 2]
    items *= 2
    items += (1,)
    items += (i for i in range(2))
    return x + 1, items, same is items


def backwards(x, items):
    return x + 1, list(reversed(items)), [item for item in reversed(items)], reversed(items)


def deleting(x, items):
    del items[0]
    del items[1:]
    return x + 1, items


@pytest.mark.parametrize("cls", [Items, Appending])
@pytest.mark.parametrize("f", [operators, in_place, backwards, deleting])
def test_lists(f, cls):
    check(f, vec(2), cls([1, 2, 3]))


def test_list_made_inside():
    def f(x, n):
        items = Items([1, n])
        items += [4]
        twice = items * 2
        items.name = "items"
        return x * items.total(), items, twice, type(twice), list(reversed(items))

    check(f, vec(2), 3)


def test_factories_below():
    def f(x, d):
        d["new"].append(x * 2)
        return x + 1, d, d.default_factory, d.get("other"), d["x"]

    check(f, vec(2), Default(list, a=1))


def test_a_factory_that_is_set():
    def f(x, d):
        d.default_factory = None
        try:
            d["new"]
        except KeyError as error:
            return x + 1, error.args, d.default_factory, d

    check(f, vec(2), Default(list, a=1), breaks=("unsupported-mutation",))
