"""Sets give their items in the order in which CPython's own tables come to hold them."""

from __future__ import annotations

import collections
import operator
import random
from typing import Any

import framejit
import pytest
import torch

from ...semantics.harness import check, strict_compile, vec

EXPRESSIONS = """
set(l)
frozenset(l)
set(tuple(l))
set(iter(l))
{n for n in l}
{*l, 7}
{l[0], l[1], l[2], l[3], l[4], l[5], l[6], l[7], l[8], l[9], l[10]}
set(d)
frozenset(d)
set(e)
set(d.keys())
s | set(l)
s.union(d)
s.union(e)
s.difference(d)
s.intersection(d)
s.symmetric_difference(d)
""".strip().splitlines()
OF_VIEWS = """
d.keys() - {3}
d.keys() - s
s - d.keys()
s | d.keys()
d.keys() & s
s & d.keys()
d.keys() ^ s
e.keys() - {3}
d.keys() & dict.fromkeys(l[4:]).keys()
d.items() | e.items()
d.items() - {(l[0], None)}
frozenset(l) | d.keys()
collections.OrderedDict.fromkeys(l).keys() & s
""".strip().splitlines()
NAMES = {"collections": collections}


def numbers(seed: int) -> list[int]:
    made = random.Random(seed)
    return [made.randrange(500) for _ in range(30)]


@pytest.mark.parametrize("seed", range(2))
def test_the_order_of_new_sets(seed):
    check(listing(EXPRESSIONS), vec(2), numbers(seed))


def test_set_operators_of_views_are_left_to_python():
    check(listing(OF_VIEWS), vec(2), numbers(0), graphs=None, breaks=None)


def listing(expressions):
    source = "def f(x, l):\n    d, e, s = dict.fromkeys(l), collections.OrderedDict.fromkeys(l[3:]), set(range(400, 430))\n    return x + 1, ["
    space: dict[str, Any] = dict(NAMES)
    exec(source + ", ".join(f"list({expression})" for expression in expressions) + "]\n", space)
    return space["f"]


def test_in_place_operators_with_a_view_make_another_set():
    def f(x, l):  # noqa: E741
        a, c = set(l[:9]), set(l)
        b, e = a, c
        a |= {1: 2, 900: 3}.keys()
        c -= dict.fromkeys(l[5:]).keys()
        b.update(dict.fromkeys(l))
        return x + 1, a is b, c is e, list(a), list(b), list(c)

    check(f, vec(2), numbers(5), graphs=None, breaks=None)


def test_a_view_of_values_is_no_set():
    def f(x, d):
        try:
            return d.values() | {1}
        except TypeError as error:
            return x + 1, str(error)

    check(f, vec(2), {"a": 1}, graphs=None, breaks=None)


def made_before_a_break(x, l):  # noqa: E741
    c, y = set(l), x + 1
    print(end="")
    c.add(1000)
    return y * 2, list(c)


def copied_before_a_break(x, l):  # noqa: E741
    c, y = set(l).copy(), x + 1
    print(end="")
    c -= set(l[5:])
    return y * 2, list(c)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("fn", [made_before_a_break, copied_before_a_break])
def test_a_set_is_made_again_with_the_same_table(fn, seed):
    check(fn, vec(2), numbers(seed), graphs=None, breaks=None)


def updated(x, l, s):  # noqa: E741
    c, d, e = set(l), set(l), set(l)
    c.update([1000, 1001])
    d |= {1000, 1001, 7}
    e -= set(l[5:])
    return x + 1, list(c), list(d), list(e), list(set(l) | {5, 6}), list(set(l) - {l[0]})


def existing(change):
    def f(x, l, s):  # noqa: E741
        change(s, l)
        return x + 1, s, list(s)

    return f


CHANGES = {
    "-=": lambda s, given: operator.isub(s, set(given[5:])),
    "|=": lambda s, given: operator.ior(s, set(given[5:])),
    "&=": lambda s, given: operator.iand(s, set(given[5:])),
    "update": lambda s, given: s.update(given[5:]),
    "add, discard, add": lambda s, given: (s.add(7), s.discard(given[3]), s.add(900)),
    "clear, update": lambda s, given: (s.clear(), s.update(given[5:])),
    "symmetric": lambda s, given: s.symmetric_difference_update(given[5:]),
}  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_the_order_of_changed_sets(seed):
    check(updated, vec(2), numbers(seed), set())


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("change", CHANGES)
def test_existing_sets_keep_their_order(change, seed):
    members = numbers(seed)
    check(
        existing(CHANGES[change]),
        vec(2),
        members,
        {*numbers(seed + 50), *members[2:8]},
        graphs=None,
        breaks=None,
    )


def grown(*left):
    """A set in a large table: where its members lie is not where they would in a new one."""
    made = set(range(1000))
    for member in made - set(left):
        made.discard(member)
    return made


def popped_and_added(x, s):
    first = s.pop()
    s.add(first)
    return x + 1, first


def added_and_listed(x, s):
    s.add(2)
    return x + 1, list(s)


def changed_and_walked(x, s):
    s.discard(9)
    s |= {2}
    return x + 1, [member for member in s]


@pytest.mark.parametrize(
    "make",
    [lambda: {1, 2, 3}, lambda: grown(1, 9), lambda: grown(1, 9, 17, 25), lambda: {5}],
    ids=["small", "two", "four", "one"],
)
@pytest.mark.parametrize(
    "f", [popped_and_added, added_and_listed, changed_and_walked], ids=lambda f: f.__name__
)
def test_an_existing_set_keeps_its_table(f, make):
    handle, mine, yours = strict_compile(f, backend="eager"), make(), make()
    for _ in range(5):
        assert str(handle(vec(2), yours)) == str(f(vec(2), mine)) and list(mine) == list(yours)


def seen_before(x, seen, key):
    new = key not in seen
    seen.add(key)
    return x + new


def added_twice(x, seen, key):
    seen.add(key)
    seen.add("z")
    return x + 1


def added_and_counted(x, seen, key):
    seen.add(key)
    return x + len(seen), key in seen


def has_a_literal(x, seen, key):
    seen.add(key)
    return x + 1 if "k4" in seen else x


ADDING = {seen_before: 4, added_twice: 2, added_and_counted: None, has_a_literal: None}


@pytest.mark.parametrize("first", [(), ("k3", 2, (1, 2))])
@pytest.mark.parametrize("f", ADDING, ids=lambda f: f.__name__)
def test_what_is_added_to_a_set_needs_no_other_member(f, first):
    handle, mine, its = framejit.compile(f, backend="eager"), {*first}, {*first}
    for step in range(12):
        key, x = f"k{step % 7}", torch.full((2,), float(step))
        assert repr(handle(x, mine, key)) == repr(f(x, its, key))
        assert repr(mine) == repr(its)
    most = ADDING[f]
    assert most is None or handle.framejit.compiles <= most, handle.framejit.explain()


def test_a_literal_is_asked_of_a_set_that_changes():
    def f(x, seen):
        return x + 1 if "a" in seen else x

    handle, seen = framejit.compile(f, backend="eager"), set()
    for step in range(6):
        seen.add(f"b{step}")
        assert torch.equal(handle(torch.ones(2), seen), torch.ones(2))
    seen.add("a")
    assert torch.equal(handle(torch.ones(2), seen), torch.ones(2) + 1)
    assert handle.framejit.compiles == 2


class Named:
    def __init__(self, name, asked):
        self.name, self.asked = name, asked

    def __hash__(self):
        return hash(self.name)

    def __eq__(self, other):
        self.asked.append(other)
        return self.name == other


def test_members_that_are_compared_in_python():
    def f(x, seen, key):
        y = x + 1
        return y * 2, key in seen

    handle = framejit.compile(f, backend="eager")
    for fn in (f, handle, handle, handle):
        for key in ("a", "b", "c"):
            asked = []
            assert fn(torch.ones(2), {Named("a", asked)}, key)[1] is (key == "a")
            assert asked == (["a"] if key == "a" else [])
