"""Instances of subclasses of str, int, float, set and frozenset, with methods and operators of
their own."""

from __future__ import annotations

import pytest

from .harness import check, vec


class Word(str):
    def shout(self):
        return self.upper() + "!"


class Bracketed(Word):
    def __add__(self, other):
        return Bracketed(f"<{str.__add__(self, other)}>")

    def __eq__(self, other):
        return str.__eq__(self, other.lower())

    __hash__ = str.__hash__


class Number(int):
    def twice(self):
        return self * 2


class Odd(Number):
    def __add__(self, other):
        return Odd(int(self) * 10 + int(other))

    def __radd__(self, other):
        return ("reflected", other)

    def __bool__(self):
        return False


class Share(float):
    def __mul__(self, other):
        return Share(float(self) + other)

    def half(self):
        return self / 2


class Doubled(set):
    def add(self, item):
        set.add(self, item * 2)

    def total(self):
        return sum(self)


class Frozen(frozenset):
    def total(self):
        return sum(self)


def words(x, word):
    return (
        x + len(word),
        word.shout(),
        word + "c",
        word == "AB",
        f"{word}?",
        {word: 1}["ab"],
        word[0],
        "a" in word,
        word,
    )


def numbers(x, n):
    return x + 1, n + 4, 4 + n, n.twice(), [1, 2, 3, 4][n], bool(n), -n, n > 2, x * 2 if n else x, n


def floats(x, share):
    return x * 2, share * 2, share.half(), share > 1, share


def sets(x, items):
    items.add(5)
    return (
        x + 1,
        items.total(),
        sorted(items),
        len(items),
        5 in items,
        items | {7},
        [n for n in sorted(items)],
    )


def frozen_sets(x, items):
    return (
        x + 1,
        items.total(),
        sorted(items),
        1 in items,
        items & {1},
        hash(items) == hash(frozenset(items)),
    )


CASES = [(words, Word("ab")), (words, Bracketed("ab")), (numbers, Number(3)), (numbers, Odd(3)), (floats, Share(1.5)),
         (sets, Doubled([1, 2])), (frozen_sets, Frozen([1, 2]))]  # fmt: skip
IDS = [type(given).__name__ for _, given in CASES]


@pytest.mark.parametrize(("f", "given"), CASES, ids=IDS)
def test_one_from_outside(f, given):
    check(f, vec(2), given, graphs=None, breaks=None)


@pytest.mark.parametrize(("f", "given"), CASES, ids=IDS)
def test_one_made_inside(f, given):
    cls, plain = type(given), type(given).__mro__[-2](given)

    def make(x):
        made = cls(plain)
        return f(x * 2, made), type(made) is cls, isinstance(made, type(plain))

    check(make, vec(2), graphs=None, breaks=None)


class Pair(tuple):
    pass


@pytest.mark.parametrize("pair", [Pair((0, 1)), (0, 1)], ids=["subclass", "tuple"])
def test_only_an_exact_tuple_is_its_own_copy(pair):
    def copies(x, pair):
        made = type(pair)([2, 3])
        return x * 2, [
            each is copy
            for each in (pair, made)
            for copy in (each * 1, each + (), () + each, each[:])
        ]

    check(copies, vec(2), pair)
