"""Lists, tuples, dictionaries, sets and their kin: made, read, changed, returned, shared."""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
from typing import NamedTuple

import pytest
import torch

from .harness import check, strict_compile, vec


class Pair(NamedTuple):
    first: torch.Tensor
    second: int = 3


@dataclasses.dataclass
class Record:
    a: torch.Tensor
    b: int = 2
    c: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: torch.Tensor
    b: int = 2


def test_list_made_and_returned():
    def f(x):
        return [x + 1, x, 3, "s"]

    check(f, vec(3))


def test_one_list_returned_twice():
    def f(x):
        items = [x + 1]
        return items, items, [items]

    check(f, vec(3))


def test_input_list_returned_is_the_input():
    def f(x, items):
        return items, x + items[0]

    check(f, vec(3), [vec(3)])


def test_list_methods():
    def f(x):
        items = [x, x + 1]
        items.append(x + 2)
        items.extend([1, 2])
        items.insert(0, "a")
        items.pop()
        last = items.pop(1)
        items.reverse()
        other = items.copy()
        del other[0]
        other[0] = 5
        other[1:2] = [7, 8]
        return (
            items,
            other,
            last,
            other.index(7),
            other.count(8),
            len(items),
            sorted([3, 1, 2], reverse=True),
        )

    check(f, vec(3))


def test_list_argument_mutated_and_returned():
    def f(x, items):
        items.append(x * 2)
        items[0] = x
        return items, len(items)

    check(f, vec(3), [1, 2])


def test_list_appended_twice_is_one_list():
    def f(x, outer):
        inner = [x + 1]
        outer.append(inner)
        outer.append(inner)
        inner.append(3)
        return inner

    check(f, vec(3), [])


def test_nested_input_mutated_through_alias():
    def f(x, nested):
        nested["a"][0].append(x + 1)
        nested["b"] = nested["a"]
        return nested

    check(f, vec(2), {"a": [[1]]})


def test_two_names_of_one_list():
    def f(x, a, b):
        a.append(x + 1)
        return len(b), b[-1]

    shared = []
    check(f, vec(2), shared, shared)


def test_list_swaps_items():
    def f(x, items):
        items[0], items[1] = items[1], items[0]
        return x + 1

    check(f, vec(2), [vec(2), vec(3)])


def test_list_sorted_in_place():
    def f(x, items):
        items.sort(key=lambda v: -v)
        return x * items[0]

    check(f, vec(2), [1, 3, 2])


def test_list_plus_and_times():
    def f(x):
        a = [x] + [1]
        a += [2, x]
        a *= 2
        return a, [0] * 3, 2 * (x + 1, 1), (1,) + (x,)

    check(f, vec(2))


def test_iadd_of_an_input_list_is_in_place():
    def f(x, a):
        b = a
        a += [x + 1]
        return a is b

    check(f, vec(2), [1])


def test_list_compared():
    def f(x):
        return [1, 2] == [1, 2], [1] < [2], (1, 2) >= (1, 3), [1] != [1], x + 1

    check(f, vec(2))


def test_list_of_itself_is_left_alone():
    def f(x):
        a = [x + 1]
        a.append(a)
        return a[1][1][0]

    check(f, vec(2))


def test_tuple_unpacking_and_slices():
    def f(x, t):
        a, *b, c = t
        (d, e), g = (1, 2), [3]
        return a, b, c, t[1:], t[::-1], d + e, g, x + a

    check(f, vec(2), (1, 2, 3, 4))


@pytest.mark.parametrize("numbers", [(1, 2), ()])
def test_tuples_that_are_not_made_again(numbers):
    def f(x, t):
        for s in t, tuple(n for n in t):
            same = [
                s is s * 1,
                s is 1 * s,
                s is s + (),
                s is () + s,
                s is s[:],
                s is s[0::1],
                s is s[:9],
                s is tuple(s),
                s is s * 2,
            ]
            other = [
                s is s[::-1],
                s is s[1:],
                s * 0 is s[7:],
                s is list(s),
                s[:1] is s[:1][::-1],
                torch.Size(s) is torch.Size(s)[:],
            ]
            x = x + sum(same) * 10 + sum(other)
        return x, same, other

    check(f, vec(2), numbers)


def test_empty_containers():
    def f(x):
        return [], {}, (), set(), x + 1

    check(f, vec(2))


def test_dict_methods():
    def f(x):
        d = {"a": x, "b": 1}
        d["c"] = x + 1
        d.update({"b": 2}, z=3)
        d.setdefault("q", []).append(1)
        popped = d.pop("a")
        gone = d.pop("nothing", None)
        return (
            d,
            popped,
            gone,
            list(d),
            list(d.values()),
            list(d.items()),
            d.get("no", 7),
            "b" in d,
            len(d),
        )

    check(f, vec(2))


def test_dict_argument_mutated_keeps_order():
    def f(x, d):
        del d["a"]
        d["c"] = x + 1
        d["a"] = 5
        d["b"] = 7
        return d["b"]

    check(f, vec(2), {"a": 1, "b": 2})


def test_dict_item_replaced_keeps_order():
    def f(x, d):
        d["a"] = x * 2

    check(f, vec(2), {"a": 1, "b": 2})


def test_dict_cleared_and_filled():
    def f(x, d):
        d.clear()
        d["b"] = x + 1
        d["a"] = 1

    check(f, vec(2), {"a": 1, "b": 2})


def test_dict_setdefault_on_input():
    def f(x, d):
        d.setdefault("k", []).append(x + 1)
        return d["k"]

    check(f, vec(2), {"a": 1})


def test_dict_with_tuple_and_int_keys():
    def f(x, d):
        d[1, "a"] = x + 1
        return d[2] + x

    check(f, vec(2), {2: 3, (1, "a"): 1})


def test_dict_with_object_keys():
    def f(x, d, keys):
        total = x
        for key in keys:
            total = total + d[key]
        return total

    class Key:
        pass

    one, two = Key(), Key()
    check(f, vec(2), {one: 1, two: 2}, [two, one], again=False)  # other keys, another entry


def test_dict_merge_and_comprehension():
    def f(x, d):
        e = {**d, "b": x + 1}
        g = d | {"c": 3}
        d |= {"e": 5}
        return e, g, {k: v for k, v in d.items()}

    check(f, vec(2), {"a": 1, "b": 2})


def test_dict_views():
    def f(x, d):
        keys = d.keys()
        d["new"] = x + 1
        return sorted(keys), "new" in keys, len(keys), list(d.items())[0], keys <= {"a", "new"}

    check(f, vec(2), {"a": 1})


def test_dict_popitem():
    def f(x, d):
        k, v = d.popitem()
        return k, v, x + 1

    check(f, vec(2), {"a": 1, "b": 2})


def test_missing_key_caught():
    def f(x, d):
        try:
            d["no"]
        except KeyError as error:
            return error.args, x + 1

    check(f, vec(2), {"a": 1})


def test_ordered_dict_and_defaultdict_and_counter():
    def f(x):
        o = collections.OrderedDict(a=1, b=x)
        o.move_to_end("a")
        o.move_to_end("a", last=False)
        d = collections.defaultdict(list)
        d["k"].append(x + 1)
        c = collections.Counter("abca")
        c["z"] += 1
        return o, d, c, c["nothing"]

    check(f, vec(2))


def test_ordered_dict_input_moved():
    def f(x, o):
        o.move_to_end("a")
        o["c"] = x + 1

    check(f, vec(2), collections.OrderedDict(a=1, b=2))


def test_defaultdict_input_grows():
    def f(x, d):
        d["k"].append(x + 1)
        return d["j"]

    check(f, vec(2), collections.defaultdict(list))


def test_sets():
    def f(x, s):
        s.add(3)
        s.discard(1)
        t = {1, 2} | s
        return s, t, t & {2}, t - {2}, t ^ {9}, 2 in s, len(t), frozenset([1]), x + 1

    check(f, vec(2), {1, 2})


def test_set_methods_on_inputs():
    def f(x, s):
        s.add(7)
        s.add(8)
        s.remove(1)
        return s.issuperset({8}), s.isdisjoint({100}), x + len(s)

    check(f, vec(2), {1, 2})


def test_namedtuple():
    def f(x, p):
        q = Pair(x + 1)
        r = p._replace(second=9)
        return q, r, p.first, p[1], q._asdict(), p._fields, isinstance(q, tuple), q == q

    check(f, vec(2), Pair(vec(2), 4))


def test_namedtuple_input_returned():
    def f(x, p):
        return p, p.first + x

    check(f, vec(2), Pair(vec(2), 4))


def test_dataclass_made_and_mutated():
    def f(x, r):
        made = Record(x + 1)
        made.c.append(3)
        r.b += 1
        r.c.append(x * 2)
        return made, r.b, dataclasses.replace(r, b=10)

    check(f, vec(2), Record(vec(2)))


def test_frozen_dataclass():
    def f(x, r):
        made = Frozen(x + 1, b=5)
        return made, r.a + x, made == made

    check(f, vec(2), Frozen(vec(2)))


def test_dataclass_fields():
    def f(x, r):
        return [field.name for field in dataclasses.fields(r)], dataclasses.is_dataclass(r), x + r.b

    check(f, vec(2), Record(vec(2)))


def test_deque_input():
    def f(x, d):
        d.append(x + 1)
        return len(d)

    check(f, vec(2), collections.deque([1]), graphs=None, breaks=None)


def test_torch_size():
    def f(x):
        s = x.shape
        return s, s[1:], s.numel(), len(s), x.new_zeros(s), tuple(s), s + (1,)

    check(f, vec(2, 3))


def test_slices():
    def f(x, s):
        return x[s], [1, 2, 3, 4][s], s.start, s.indices(2), slice(1, None)

    check(f, vec(4), slice(0, 2))


ODD_SLICES = ["slice(0, 9, 0).indices(5)", "[1, 2][::k]", "(1, 2)[slice(0, 2, k)]", "slice(0, 9, 2).indices(-1)", "slice('a', 'b', 1).indices(3)",
              "slice(1).indices()", "'abc'[::k]", "range(5)[::k]", "len(range(2 ** 80))", "range(2 ** 80).__len__()", "[1][slice('a')]"]  # fmt: skip


@pytest.mark.parametrize("expression", ODD_SLICES)
def test_slices_and_ranges_that_raise(expression):
    names = {}
    exec(
        f"def f(x, k):\n    try:\n        {expression}\n    except Exception as e:\n        return x + 1, type(e), str(e)\n",
        names,
    )
    check(names["f"], vec(2), 0)


def test_a_number_that_varied_and_is_minus_zero():
    def f(x, n):
        return x * n, repr(n)

    handle = strict_compile(f, backend="eager")
    for n in (1.0, -0.0, 0.0, 2.5, -0.0):
        assert handle(vec(2), n)[1] == repr(n)
        assert torch.equal(handle(vec(2), n)[0].signbit(), f(vec(2), n)[0].signbit())


def test_range_input():
    def f(x, r):
        return x * r[1], len(r), list(r), 3 in r

    check(f, vec(2), range(1, 9, 2))


def test_copies():
    import copy

    def f(x, d):
        a, b = copy.copy(d), copy.deepcopy(d)
        a["n"] = x + 1
        b["l"].append(2)
        return a, b, a["l"] is d["l"], b["l"] is d["l"]

    check(f, vec(2), {"l": [1]})


def test_list_subclass():
    class Items(list):
        def total(self):
            return sum(self)

    def f(x, items):
        items.append(4)
        made = Items([1, 2])
        made.append(x + 1)
        return x * items.total(), made, len(made), items

    check(f, vec(2), Items([1, 2]))


class Tuple(tuple):
    pass


class List(list):
    pass


class Dict(dict):
    pass


class Error(Exception):
    pass


@pytest.mark.parametrize(("cls", "args", "named"), [
    (Tuple, ([1], [2]), {}), (Tuple, (), {"iterable": [1]}), (List, ([1], [2]), {}), (List, (), {"iterable": [1]}), (Dict, ({}, {}), {}),
    (dict, ({}, {}), {}), (Error, (), {"code": 1}),
])  # fmt: skip
def test_arguments_that_a_class_does_not_take(cls, args, named):
    check(lambda x: (x + 1, cls(*args, **named)), vec(2), graphs=None, breaks=None, skipped=True)


def test_dict_subclass():
    class Table(dict):
        def __missing__(self, key):
            return 42

        def double(self):
            return {k: v * 2 for k, v in self.items()}

    def f(x, t):
        t["n"] = x + 1
        made = Table(a=1)
        made["b"] = x
        return t["a"], t["nothing"], t.double(), made

    check(f, vec(2), Table(a=1), graphs=None, breaks=None)


def test_ordered_dict_subclass_with_attributes():
    class Output(collections.OrderedDict):
        def __init__(self, **fields):
            super().__init__(**fields)
            for k, v in fields.items():
                object.__setattr__(self, k, v)

        def __setitem__(self, key, value):
            super().__setitem__(key, value)
            object.__setattr__(self, key, value)

        def to_tuple(self):
            return tuple(self[k] for k in self.keys())

    def f(x, given):
        out = Output(hidden=x + 1, n=3)
        out["more"] = x * 2
        given["later"] = x
        return out, out.to_tuple(), out.hidden, given.first

    check(f, vec(2), Output(first=vec(2)))


def test_tensors_in_sets_and_as_keys():
    def f(x, y):
        table = {x: 1, y: 2}
        return table[y], x in table, x + y

    check(f, vec(2), vec(2))


def test_list_only_appended_to_holds_its_guards():
    def f(x, log):
        log.append(x.sum())
        return x + 1

    check(f, vec(2), [1])


def test_zip_strict_and_dict_from_pairs():
    def f(x, names):
        return dict(zip(names, [x, x + 1], strict=True)), dict([("a", 1)]), dict(b=x)

    check(f, vec(2), ["p", "q"])


def test_bytes_and_bytearray():
    def f(x, b):
        return b[0] + x, b.hex(), b + b"x", len(b)

    check(f, vec(2), b"ab")


def test_adding_to_a_list_relies_on_nothing_of_it():
    def f(x, items):
        items.append(x + 1)
        items += [2]
        items.extend((3, items))
        return x * 2

    handle = check(f, vec(2), [1])
    compiles, items = handle.framejit.compiles, []
    for _ in range(20):
        handle(vec(2), items)
    assert handle.framejit.compiles == compiles and len(items) == 80


def test_adding_to_a_list_and_asking_for_it_afterwards():
    def f(x, items, other):
        items.append(x)
        n = len(items)
        items.append(n)
        outside_is = items is other
        other.append(items[0])
        print("a break")
        items.append(len(other))
        return n, outside_is, items[-1], x + 1

    check(f, vec(2), [1, 2], [], graphs=None, breaks=None)
    both = [5]
    check(f, vec(2), both, both, graphs=None, breaks=None)


def test_adding_is_taken_back_at_a_break():
    def f(x, items):
        items.append(1), items.append(len(str(x)))
        items.append(x + 1)
        return items

    check(f, vec(2), [], graphs=None, breaks=None)


def test_a_key_that_an_empty_dictionary_lacks():
    """A key that is no literal is looked up in all of the entries, of which there are none."""
    by_object = collections.defaultdict(dict)

    def f(x, d, key):
        return x + len(d[key]), d.get(x), x in d

    check(f, vec(2), by_object, object, graphs=1)
    check(f, vec(2), by_object, torch.nn.Linear(1, 1), graphs=None, breaks=None)


def test_itertools_read_as_late_as_pythons():
    def f(x, items, log):
        def logged():
            for item in items:
                log.append(item)
                yield item

        source = logged()
        part = itertools.islice(source, 1, 6, 2)
        first = next(source)
        given = [next(part)]
        pairs = itertools.pairwise(source)
        given += [next(pairs), next(part)]
        totals = itertools.accumulate(source, initial=10)
        given += [next(totals), next(totals)]
        longest = itertools.zip_longest("ab", source, fillvalue=0)
        given += [next(longest)]
        flat = itertools.chain.from_iterable(([i, log.append(-i)] for i in (1, 2)))
        given += [next(flat)]
        return x + first, given, list(log), list(longest)

    check(f, vec(2), list(range(12)), [], graphs=None, breaks=None)


def test_itertools_outlive_a_break():
    def f(x, items):
        made = [
            itertools.islice(iter(items), 0, None, 1),
            itertools.pairwise(items),
            itertools.accumulate(items),
            itertools.cycle(items),
            itertools.zip_longest(items, "ab", fillvalue=1),
            itertools.repeat(3, 4),
            itertools.repeat(5),
            itertools.product(items, "ab"),
            itertools.combinations(items, 2),
            itertools.permutations(items, 2),
            itertools.chain(items, "xy"),
            itertools.chain.from_iterable([items, "xy"]),
            itertools.combinations_with_replacement("ab", 2),
            itertools.count(1, 2.5),
        ]
        taken = [next(one) for one in made] + [next(one) for one in made]
        y = x + 1
        print([type(one) for one in made])
        return taken, y * 2, made

    def rest(outcome):
        return *outcome[:2], [list(itertools.islice(one, 9)) for one in outcome[2]]

    assert str(rest(strict_compile(f)(vec(2), [4, 5, 6]))) == str(rest(f(vec(2), [4, 5, 6])))


class Ranked:
    """Ordered by __lt__, which writes down what it is asked."""

    def __init__(self, rank, asked, tensor=None):
        self.rank, self.asked, self.tensor = rank, asked, tensor

    def __lt__(self, other):
        self.asked.append((self.rank, other.rank))
        return self.rank < other.rank


@pytest.mark.parametrize("ranks", [(5, 3, 9, 1, 1, 7, 2), (1, 2), (2, 1), (3,), ()])
@pytest.mark.parametrize("backwards", [False, True])
def test_sorting_asks_what_python_asks(ranks, backwards):
    def f(x):
        asked = []
        made = [Ranked(rank, asked, x * rank) for rank in ranks]
        made.sort(reverse=backwards)
        pairs = sorted([(1, Ranked(rank, asked)) for rank in ranks])
        compared = sorted(
            ranks, key=functools.cmp_to_key(lambda a, b: asked.append((a, b)) or b - a)
        )
        return [one.tensor for one in made], x + 1, asked, [one.rank for _, one in pairs], compared

    check(f, vec(2), graphs=None, breaks=None)


def test_a_list_is_empty_while_it_is_sorted():
    def f(x):
        items, seen = [3, 1, 2], []

        def key(item):
            seen.append(len(items))
            return item

        items.sort(key=key)
        try:
            items.sort(key=lambda item: items.append(item) or -item)
        except ValueError as error:
            seen.append(str(error))
        return x + 1, items, seen

    check(f, vec(2))


def test_a_sort_that_fails():
    def f(x):
        items = [3, 1, 2]
        try:
            items.sort(key=lambda item: 1 / (item - 2))
        except ZeroDivisionError as error:
            return x + 1, items, str(error)

    check(f, vec(2))


def test_a_comparison_that_fails():
    class Picky:
        def __init__(self, n):
            self.n = n

        def __lt__(self, other):
            if self.n == 2:
                raise ValueError("two")
            return self.n < other.n

    def f(x):
        items = [Picky(3), Picky(2), Picky(1)]
        try:
            items.sort()
        except ValueError as error:
            return x + 1, [item.n for item in items], str(error)

    check(f, vec(2), graphs=None, breaks=None)


def test_zip_strict():
    def f(x):
        told = []
        for parts in (
            ([1], [1, 2]),
            ([1, 2], [1]),
            ([1, 2], [1, 2], [1]),
            ([], [1]),
            ([1], [1], [1, 2]),
            ([], [], [2]),
            ([1], [2]),
        ):
            try:
                told.append(list(zip(*parts, strict=True)))
            except ValueError as error:
                told.append(str(error))
        return x + 1, told

    check(f, vec(2))


def test_a_very_large_dictionary_is_read_and_written_item_by_item():
    def f(x, table):
        table["new"], table[5] = 1, 6
        return x + table[3] + table[5] + len(table)

    check(f, vec(2), {i: i for i in range(20_000)}, graphs=1)


def test_the_order_of_a_very_large_dictionary_is_left_to_python():
    def f(x, table):
        table["new"] = 1
        return x + list(table)[-2]

    check(f, vec(2), {i: i for i in range(20_000)}, graphs=1, breaks=("unsupported-value",))
