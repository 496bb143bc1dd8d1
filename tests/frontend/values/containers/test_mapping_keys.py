"""Objects as keys of dictionaries and members of sets: equal to themselves alone, or as their class
says."""

from __future__ import annotations

import collections
import dataclasses
import operator  # noqa: F401 - for the tables
from typing import Any

import pytest
import torch

from ...semantics.harness import check, strict_compile, vec


class Plain:
    def method(self) -> None:
        pass


def closure() -> Any:
    def inner() -> int:
        return 1

    return inner


PAIRS = {
    "objects": lambda: (Plain(), Plain()),
    "methods": lambda: (Plain().method, Plain().method),
    "functions": lambda: (closure(), closure()),
    "tensors": lambda: (vec(2), vec(2)),
    "parameters": lambda: (torch.nn.Parameter(vec(2)), torch.nn.Parameter(vec(2))),
    "modules": lambda: (torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)),
    "dtypes": lambda: (torch.float32, torch.float64),
}
LOOKUPS = {
    "in a dictionary": lambda a, b, d: (b in {a: 1}, {a: 1}.get(b)),
    "in a set": lambda a, b, d: (b in {a}, len({a, b})),
    "in one from outside": lambda a, b, d: (b in d, d.get(b, "none")),
    "in a tuple": lambda a, b, d: ((b, 1) in {(a, 1): 2},),
    "stored": lambda a, b, d: (d.setdefault(b, 2), len(d), d.pop(b, None)),
    "of sets": lambda a, b, d: (len({a} & {b}), {a} == {b}, {a}.isdisjoint([b])),
}


@pytest.mark.parametrize("lookup", LOOKUPS)
@pytest.mark.parametrize("kind", PAIRS)
def test_two_objects_as_keys_may_be_one_at_the_next_call(kind, lookup):
    ask = LOOKUPS[lookup]

    def f(x, a, b, d):
        return x + 1, ask(a, b, d)

    a, b = PAIRS[kind]()
    handle = strict_compile(f, backend="eager")
    for other in (b, a, b, a):
        assert handle(vec(2), a, other, {a: 1})[1] == f(vec(2), a, other, {a: 1})[1]


class Key:
    """Equal and hashed by its number, in Python."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and self.number == other.number

    def __hash__(self) -> int:
        return hash(self.number)

    def __repr__(self) -> str:
        return f"Key({self.number})"


class Colliding(Key):
    def __hash__(self) -> int:
        return 7

    def __eq__(self, other: object) -> bool:
        return self.number == getattr(other, "number", other)


class Undecided(Key):
    def __eq__(self, other: object) -> Any:
        return NotImplemented

    __hash__ = Key.__hash__


class Failing(Key):
    def __eq__(self, other: object) -> bool:
        raise ValueError("not to be compared")

    def __hash__(self) -> int:
        return 3


class Huge(Key):
    def __hash__(self) -> int:
        return 2**70 + self.number if self.number else -1


@dataclasses.dataclass(frozen=True)
class Config:
    size: int
    name: str = "a"


class Missing(dict):
    def __missing__(self, key: Key) -> int:
        self[key] = key.number
        return key.number


USES = """
x * d[k], d.get(Key(9)), k in d, Key(9) in d, len(d)
d.update({k: 5}), d.pop(Key(1)), d.setdefault(Key(1), x), list(d)
[(key.number, value) for key, value in d.items()], list(d.values()), {**d}, d == {Key(1): 1, Key(2): 2}, d.keys() & {k}
{Key(i % 2): x + i for i in range(4)}
d.pop(k), d.setdefault(k, x), list(d.items())
2 in {Colliding(2): 1}, {7: 1}.get(Colliding(7)), {Colliding(3): x, Colliding(3): 1}
{Huge(0): 1, Huge(3): x}[Huge(3)], hash(Huge(0)), hash((k, 1)) == hash((Key(2), 1))
x * t[Config(1)], Config(1, "b") in t, dataclasses.replace(Config(1), size=2) in t, {Config(i % 2): i for i in range(4)}
s | {Key(4), k}, s & {k}, s - {k}, k in s, s == {k}, s <= {k, Key(1), Key(3)}, frozenset(s), [key.number for key in s]
s.add(Key(3)), s.add(k), s.discard(Key(1)), s.update([Key(8), k]), Key(3) in s, Key(1) in s, s == {k, Key(3), Key(8)}, len(s)
[key.number for key in {Key(n) for n in (3, 17, 33, 9, 65, 129, 8, 0)}]
{frozenset([k, Key(1)]): x}[frozenset([Key(1), Key(2)])], {(k, 1): x}[Key(2), 1], {(k, 1)} == {(Key(2), 1)}
collections.Counter([k, Key(2), Key(3)]), collections.OrderedDict(d), collections.defaultdict(list, d)[k]
m[Key(4)] + m[k], m
c.update([k, Key(8)]), c[k], c.total(), o.move_to_end(Key(1)), list(o)
l.index(Key(2)), l.count(Key(2)), l.remove(k), k in l, k in tuple(l), [Key(1)] == [Key(1)]
""".strip().splitlines()


def worlds() -> dict[str, Any]:
    keys = {Key(1): 1, Key(2): 2}
    return {"d": keys, "k": Key(2), "t": {Config(1): 2, Config(2): 3}, "s": {Key(1), Key(2)}, "m": Missing(keys), "l": [Key(1), Key(2), Key(3)],
            "c": collections.Counter(keys), "o": collections.OrderedDict(keys)}  # fmt: skip


@pytest.mark.parametrize("use", USES)
def test_keys_that_are_compared_in_python(use):
    space = {**globals()}
    exec(f"def f(x, d, k, t, s, m, l, c, o):\n    return x + 1, ({use})\n", space)
    check(space["f"], vec(2), kwargs=worlds(), again=False, graphs=None, breaks=None, skipped=True)


@pytest.mark.parametrize(
    "use",
    [
        "{Colliding(1): 1, Colliding(2): x}",
        "Colliding(2) in {Colliding(1)}",
        "len({Undecided(1), Undecided(1)})",
    ],
)
def test_keys_that_hash_alike_and_differ_are_left_to_python(use):
    space = {**globals()}
    exec(f"def f(x):\n    y = x + 1\n    return y * 2, ({use})\n", space)
    check(space["f"], vec(2), graphs=None, breaks=None)


def test_what_comparing_raises_is_raised_there():
    def f(x):
        try:
            d = {Failing(1): x}
            d[Failing(2)] = x
        except ValueError as error:
            return x + 1, str(error), len(d)

    check(f, vec(2), graphs=None, breaks=None, skipped=True)


def test_keys_that_write_down_what_they_are_asked_are_asked_as_often_as_by_python():
    log: list[Any] = []

    class Loud(Key):
        def __hash__(self) -> int:
            log.append(("hash", self.number))
            return hash(self.number)

        def __eq__(self, other: Any) -> bool:
            log.append((self.number, other.number))
            return self.number == other.number

    def f(x, keys):
        d = {keys[0]: x, keys[1]: 1}
        d[Loud(1)] = 3
        return x + 1, Loud(2) in d, {*keys} == set(d), keys.index(keys[1])

    keys = [Loud(1), Loud(2)]
    expected = f(vec(2), keys)[1:]
    asked = list(log)
    log.clear()
    assert strict_compile(f, backend="eager")(vec(2), keys)[1:] == expected and log == asked


@pytest.mark.parametrize("change", ["made = Key(1); d[made] = x; made.number = 5", "d[3] = x; k.number = 7; d[k] = x", "k.number = 7; d[k] = x",
                                    "d[k] = x; k.number = 8; d[Key(2)] = x * 2", "s = {k, Key(4)}; k.number = 4; d[9] = s"])  # fmt: skip
def test_a_key_that_changes_is_stored_under_the_hash_it_had(change):
    space = {**globals()}
    exec(
        f"def f(x, d, k):\n    {change}\n    x = x + 1\n    return x, k in d, Key(1) in d, Key(5) in d, Key(2) in d, d, k\n",
        space,
    )
    for made in (space["f"], strict_compile(space["f"], backend="eager")):
        found = made(vec(2), {Key(1): 1, Key(2): 2}, Key(3))
        told = (found[1:5], [key if isinstance(key, int) else key.number for key in found[5]])
        if made is space["f"]:
            expected = told
    assert told == expected


def test_each_change_of_a_dictionary_and_its_keys_is_seen():
    def f(x, d, k):
        return x + 1, k in d, d.get(k, "none")

    handle = strict_compile(f, backend="eager")
    first, k, d = Key(1), Key(1), {}

    def agree() -> None:
        assert handle(vec(2), d, k)[1:] == f(vec(2), d, k)[1:]

    agree()
    d[first] = 1
    agree()
    for number in (2, 1, 9):
        k.number = number
        agree()
    d[Key(2)] = 5
    agree()
    first.number = 9  # still under its old hash
    agree()
    k.number = 1
    agree()
    d.clear()
    d[k] = 2
    agree()


EQUAL = False


class Moody:
    """Equal to others of its kind now and then."""

    def __hash__(self) -> int:
        return 5

    def __eq__(self, other: object) -> bool:
        return EQUAL


def test_keys_that_become_equal() -> None:
    def f(x: torch.Tensor) -> Any:
        global EQUAL
        d = {}
        d[Moody()] = 1
        d[Moody()] = 2
        EQUAL = True
        d[Moody()] = 3
        count = len(d)
        EQUAL = False
        return x + count, list(d.values())

    check(f, vec(2), graphs=None, breaks=None)


FLAGS: list[int] = []


class Flagged:
    """Equal to others of its kind once there is a flag."""

    def __hash__(self) -> int:
        return 5

    def __eq__(self, other: object) -> bool:
        return bool(FLAGS)


@pytest.mark.parametrize(
    "made",
    [
        "{Flagged(): 1, Flagged(): 2}",
        "{Flagged(), Flagged()}",
        "collections.Counter([Flagged(), Flagged()])",
    ],
)
def test_keys_that_become_equal_after_they_were_stored(made: str) -> None:
    space = {**globals()}
    exec(
        f"def f(x):\n    d = {made}\n    FLAGS.append(1)\n    y = x + len(d)\n    FLAGS.clear()\n    return y, len(d)\n",
        space,
    )
    check(space["f"], vec(2), graphs=None, breaks=None)
    exec(f"def f(x):\n    d = {made}\n    FLAGS.append(1)\n    return x + 1, d\n", space)
    for call in (space["f"], strict_compile(space["f"], backend="eager")):
        FLAGS.clear()
        assert len(call(vec(2))[1]) == 2
    FLAGS.clear()


def test_a_variable_by_which_keys_are_compared() -> None:
    def f(x: torch.Tensor) -> Any:
        class Key:
            def __hash__(self) -> int:
                return 5

            def __eq__(self, other: object) -> bool:
                return equal

        d = {}
        equal = False
        d[Key()] = 1
        d[Key()] = 2
        equal = True
        d[Key()] = 3
        return x + len(d), list(d.values())

    check(f, vec(2), graphs=None, breaks=None, again=False)


OF_EQUAL_KEYS = """
s & e, e & s, s & {k}, {k} & s, {k, Key(1)} & s, s & {k, Key(1)}, {Key(1), Key(2), Key(3)} & {k, Key(9)}
s | e, e | s, s | {k}, {k} | s, s - {k}, e - s, s ^ e, e ^ {k}, {k} ^ s
s.intersection(e), e.intersection(s), s.intersection([k, Key(2)]), s.intersection(e, [k]), s.union([k, Key(5), Key(5)]), s.difference([k])
s.symmetric_difference([k, Key(5), Key(5)]), s.intersection(d), s.intersection(d.keys()), s.union(d), s.intersection()
tuple(map(list, (z & s, s & z, z | s, z & {k}, z & frozenset([k, Key(3)]), frozenset(s) & e, z.intersection([k]), z.union([k], s))))
d.keys() & s, s & d.keys(), d.keys() & e, e & d.keys(), d.keys() & {k}, {k} & d.keys(), d.keys() & [k], d.keys() & {Key(1), k, Key(7)}
d.keys() | {k}, {k} | d.keys(), d.keys() - {k}, d.keys() ^ e, e ^ d.keys(), d.keys() & {k: 1}.keys(), {k: 1, Key(1): 2, Key(5): 3}.keys() & d.keys()
d.items() & {(k, 2)}, {(k, 2)} & d.items(), d.items() | {(k, 2)}, d.items() - {(k, 2)}, d.items() & {k: 2}.items()
s.intersection_update({k}), s, [key is k for key in s]
s.intersection_update([k, Key(1), Key(1)]), s, e.intersection_update(s), e, s.update({k}), s
s.difference_update({k}), s.update([k]), s, e.symmetric_difference_update(s), e
operator.iand(s, {k}), s, operator.ior(e, {k}), e, operator.isub(e, s), operator.ixor(s, e)
s.add(k), s.discard(k), s.add(k), s, s.remove(Key(1)), s.add(Key(1)), list(s)
h & s, s & h, h.intersection([k]), s.intersection(h)
{1, 2} & {True, 5}, {True} & {1, 2}, {1, 0} & {False, 1.0}, {0: 1, 1.0: 2}.keys() & {True}, {(1, 2), 3} & {(True, 2), 3.0}, n & {True, 3.0}
n.intersection_update({True, 2.0}), n, n.add(1.0), n, n.discard(True), n.add(True), n
""".strip().splitlines()


class Handmade(set):
    pass


@pytest.mark.parametrize("use", OF_EQUAL_KEYS)
def test_of_equal_keys_the_one_that_python_keeps_is_kept(use):
    space = {**globals()}
    exec(f"def f(x, d, k, s, e, z, h, n):\n    return x + 1, ({use})\n", space)
    first, second = Key(1), Key(2)
    sets = {
        "e": {Key(1), Key(2), Key(3)},
        "z": frozenset([Key(1), Key(2)]),
        "h": Handmade([Key(2)]),
        "n": {1, 2, 3},
    }
    check(
        space["f"],
        vec(2),
        kwargs={"d": {first: 1, second: 2}, "k": Key(2), "s": {first, second}, **sets},
        graphs=None,
        breaks=None,
        again=False,
    )
