"""Python's messages for wrong uses are the same when compiled, word for word, where the program
may catch the error."""

from __future__ import annotations

import collections
import functools
import itertools
import operator
from collections import deque
from typing import Any

import pytest

from .harness import check, vec

USES = """
d.remove(9)
d.index(9)
d[7]
d[-4]
d[0:1]
d.insert(0, 1)
d.rotate(2.0)
d.rotate("a")
d.rotate(True), d
x.requires_grad_(1)
x.detach().requires_grad_(o)
x.detach().requires_grad_().requires_grad_(True).requires_grad
d.index(3, 0, 2)
d + d, d * 2, 2 * d, d.maxlen, (d + deque([7, 8])).maxlen
deque([1], -1)
deque([1, 2], 3) * 4 + deque([9])
[n for n in d if d.append(n) is None]
[n for n in deque([1, 2]) if d.rotate(1) is None]
(lambda i: (next(i), d.append(1), next(i)))(iter(d))
type(iter(d)).__name__
collections.defaultdict(5)
collections.OrderedDict().popitem()
{}.popitem()
{[]: 1}
{1} | {()}, [] in {1}
[1, 2].insert("a", 1)
[1].pop("a")
[1].pop(1.5)
[1, 2].index()
slice()
operator.ixor(0.5, 2), operator.xor(0.5, 2)
operator.ipow("a", 2)
sum(["a"], "b")
reversed({1})
map(int)
min()
max()
list(enumerate([1], "a"))
list(enumerate([1], start=5))
iter(3, 4)
iter([1], 2)
getattr(x, 3)
hasattr(x, 3)
setattr(o, 3, 4)
vars(3)
len(o)
1 in o
operator.methodcaller("q")(3)
operator.itemgetter()
functools.partial(3)
functools.partial()
itertools.islice()
itertools.tee([1], -1)
hasattr(cached, "cache_info"), hasattr(cached, "nothing")
""".strip().splitlines()


class Plain:
    pass


@functools.lru_cache
def cached(n: int) -> int:
    return n + 1


NAMES = {
    "deque": deque,
    "collections": collections,
    "functools": functools,
    "itertools": itertools,
    "operator": operator,
    "cached": cached,
}


@pytest.mark.parametrize("use", USES)
def test_what_a_use_gives_or_raises(use):
    space: dict[str, Any] = dict(NAMES)
    exec(f"def f(x, o):\n    d = deque([1, 2, 3], 3)\n    try:\n        r = ({use})\n    except Exception as error:\n"
         "        r = type(error), str(error)\n    return x + 1, r, d\n", space)  # fmt: skip
    check(space["f"], vec(2), Plain(), graphs=None, breaks=None)


def test_deques_in_place_keep_to_their_length():
    def f(x, d):
        e = d
        d += [7, 8]
        d *= 3
        e.extend([9])
        return x + 1, d is e, d

    check(f, vec(2), deque([1, 2, 3], 4), graphs=None, breaks=None)


@pytest.mark.parametrize(
    "ask",
    [
        lambda x: x.dim(3),
        lambda x: x.numel(1),
        lambda x: x.element_size(2),
        lambda x: x.get_device(1),
    ],
)
def test_arguments_for_a_query_of_a_tensor(ask):
    def f(x):
        y = x + 1
        try:
            return ask(x)
        except TypeError as error:
            return str(error), y

    check(f, vec(2), graphs=None, breaks=None)


def rows_of_a_list(x, y, rows):
    y.copy_(x * 2)
    return x[rows] + 1


@pytest.mark.parametrize("rows", [[1, 0], [0, 2], [-3, 1], [5, -9, 7]])
def test_a_row_out_of_bounds_raises_in_the_programs_own_line(rows):
    """The tensor that was changed before stays changed: the graph cannot raise, and start over in
    eager, behind that."""
    check(rows_of_a_list, vec(2, 3), vec(2, 3), rows, graphs=None, breaks=None)


def in_place_of_numbers(x, n, share):
    told = []
    for change in ("xor", "shift", "power"):
        try:
            if change == "xor":
                share ^= n
            elif change == "shift":
                n <<= share
            else:
                n **= "a"
        except TypeError as error:
            told.append(str(error))
    return x * n, told


@pytest.mark.parametrize("n", [3, 4])
def test_an_error_names_the_operator_as_it_is_written(n):
    handle = check(in_place_of_numbers, vec(), n, 0.5 * n)
    for other in (n + 1, n + 5):
        assert str(handle(vec(), other, 2.5)) == str(in_place_of_numbers(vec(), other, 2.5))
