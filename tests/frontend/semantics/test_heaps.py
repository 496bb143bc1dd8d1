"""heapq, and what is made of it: ties and comparisons come in the order of C's own."""
from __future__ import annotations

import heapq
from collections import Counter

import pytest

from .harness import check, vec

COMPARED = []


class Item:
    def __init__(self, rank, name):
        self.rank, self.name = rank, name

    def __lt__(self, other):
        COMPARED.append((self.name, other.name))
        return self.rank < other.rank


class Heap(list):
    pass


def functions(x, heap):
    heapq.heapify(heap)
    heapq.heappush(heap, 0)
    return x + 1, heapq.heappop(heap), heapq.heapreplace(heap, 7), heapq.heappushpop(heap, 3), heapq.heappushpop(heap, -1), heap


def chosen(x, items):
    by_rest = [heapq.nlargest(3, items, key=lambda n: -n), heapq.nsmallest(3, items, key=lambda n: n % 2)]
    return x + 1, [heapq.nsmallest(n, items) for n in (0, 1, 2, 9)], [heapq.nlargest(n, items) for n in (0, 1, 2, 9)], by_rest


def merged(x, items):
    backwards = list(heapq.merge([3, 2], [5, 1], reverse=True))
    return x + 1, list(heapq.merge(sorted(items), [1, 2, 9])), backwards, list(heapq.merge([1, 4], [3], key=lambda n: -n))


def queue(x, first):
    waiting, out = [], []
    for turn, rank in enumerate([3, 1, first, 2, 1]):
        heapq.heappush(waiting, (rank, turn, x * rank))
    while waiting:
        rank, turn, value = heapq.heappop(waiting)
        out.append((turn, value + rank))
    return out


def ties(x, ranks):
    heap = [Item(rank, number) for number, rank in enumerate(ranks)]
    heapq.heapify(heap)
    heapq.heappush(heap, Item(1, "pushed"))
    heapq.heappushpop(heap, Item(2, "both"))
    heapq._heapify_max(heap)
    heapq._heapreplace_max(heap, Item(0, "last"))
    return x + 1, [heapq.heappop(heap).name for _ in range(len(heap))]


def refused(x, heap):
    told = []
    for call in (heapq.heappop, lambda heap: heapq.heapreplace(heap, 1)):
        try:
            call(heap)
        except IndexError as error:
            told.append(str(error))
    return x + 1, told, heapq.heappushpop(heap, 5), heap


def half_way(x, heap):
    try:
        heapq.heappush(heap, "a")
    except TypeError as error:
        return x + 1, str(error), heap


def commonest(x, counter):
    return x + 1, [counter.most_common(n) for n in (None, 0, 1, 2, 10)]


CASES = [(functions, [5, 3, 4, 1, 2]), (functions, Heap([5, 3, 4, 1, 2])), (chosen, [5, 3, 4, 1, 2, 3]), (merged, [5, 3, 4]), (queue, 2),
         (ties, [3, 1, 2, 1, 1, 3, 0]), (refused, []), (half_way, [1, 2]), (commonest, Counter("abracadabra"))]  # fmt: skip


@pytest.mark.parametrize(("f", "given"), CASES, ids=[f.__name__ for f, _ in CASES])
def test_heaps(f, given):
    COMPARED.clear()
    check(f, vec(2), given, globals=("COMPARED",) if f is ties else ())


def test_next_of_an_iterator():
    def f(x, items):
        step = iter(items).__next__
        return x + step(), step(), step.__self__, hasattr(step.__self__, "__len__"), hasattr(step.__self__, "__next__")

    check(f, vec(2), [1, 2, 3])


def test_kinds_of_iterators():
    def f(x, d, items):
        d["c"] = 3
        walked = reversed(d.items())
        first = next(walked)
        kinds = reversed(d), reversed(d.keys()), reversed(d.values()), walked, reversed(items), reversed((1, 2)), iter(()), iter(d)
        return x + 1, first, kinds, [type(kind) for kind in kinds]

    check(f, vec(2), {"a": 1, "b": 2}, [1, 2])


def test_reversed_of_a_dictionary_that_changes():
    def f(x, d):
        try:
            for key in reversed(d):
                d[key + "a"] = x * 2
        except RuntimeError as error:
            return str(error), d

    check(f, vec(2), {"a": 1, "b": 2})
