"""Breaks in functions that builtins call back: effects before and after the break happen exactly
once."""

from __future__ import annotations

import functools
import itertools
import re

import pytest

from .harness import check, vec


def loud(log, item):
    log.append(item)
    print("called with", item)
    return item


def sorted_by(x, log):
    return (
        sorted([3, 1, 2], key=lambda n: loud(log, n)),
        sorted([3, 1], key=lambda n: -loud(log, n), reverse=True),
        x + 1,
    )


def sorted_in_place(x, log):
    numbers = [3, 1, 2]
    numbers.sort(key=lambda n: loud(log, n))
    return numbers, x + 1


def mapped(x, log):
    return list(map(lambda n: x + loud(log, n), [1, 2, 3])), tuple(
        map(lambda a, b: loud(log, a) * b, [1, 2], [3, 4])
    )


def reduced(x, log):
    return functools.reduce(lambda a, n: a * 2 + loud(log, n), [1, 2, 3], x)


def extremes(x, log):
    return max([3, 1, 2], key=lambda n: -loud(log, n)), min(3, 1, key=lambda n: loud(log, n)), x * 2


def filtered(x, log):
    return (
        list(filter(lambda n: loud(log, n) > 1, [1, 2, 3])),
        any(loud(log, n) for n in [0, 4, 5]),
        all(loud(log, n) for n in [1, 0, 2]),
        x + 1,
    )


def summed(x, log):
    return sum(map(lambda n: x * loud(log, n), [1, 2, 3])), {n: loud(log, n) for n in (1, 2)}, x + 1


def raises(x, log):
    def careful(n):
        loud(log, n)
        if n == 2:
            raise ValueError(n)
        return x + n

    try:
        return list(map(careful, [1, 2, 3]))
    except ValueError as error:
        log.append(str(error))
    return x * 2


def grouped(x, log):
    return [
        (key, list(group)) for key, group in itertools.groupby([1, 1, 2], lambda n: loud(log, n))
    ], x + 1


def accumulated(x, log):
    return list(
        itertools.accumulate([x, x * 2, x * 3], lambda a, b: (loud(log, len(log)), a + b)[1])
    )


def substituted(x, log):
    return re.sub("a", lambda match: loud(log, match.group()) + "!", "banana"), x + 1


def compared(x, log):
    return sorted([3, 1, 2], key=functools.cmp_to_key(lambda a, b: loud(log, a) - b)), x + 1


def partial(x, log):
    return list(map(functools.partial(loud, log), [1, 2])), x + 1


def looked_up(x, log):
    class Table(dict):
        def __missing__(self, key):
            loud(log, key)
            return x * 2

    return Table()["a"] + 1, log


CASES = [sorted_by, sorted_in_place, mapped, reduced, extremes, filtered, summed, raises, grouped, accumulated, substituted, compared, partial,
         looked_up]  # fmt: skip


@pytest.mark.parametrize("f", CASES, ids=lambda f: f.__name__)
def test_effects_happen_once_and_in_order(f):
    check(f, vec(2), [], graphs=None, breaks=None, skipped=True, again=False)
