"""A break in the body of a loop loses that statement only, whatever iterator the loop walks: the
iterator exists by then, is looked into without being moved, and is moved as eager moves it."""

from __future__ import annotations

import collections
import itertools
from typing import Any

import framejit
import pytest
import torch

from ...semantics.harness import PYTHON, capture_events, check, strict_compile, vec

LAYERS = [torch.nn.Linear(3, 3) for _ in range(5)]
MODULES = torch.nn.ModuleList(LAYERS)
NAMED = torch.nn.ModuleDict({f"layer{index}": layer for index, layer in enumerate(LAYERS)})
TENSORS = [torch.full((3,), float(index)) for index in range(5)]
BY_NAME = dict(NAMED.items())
ORDERED = collections.OrderedDict(BY_NAME)
SPACE = {"torch": torch, "itertools": itertools, "collections": collections, "LAYERS": LAYERS, "MODULES": MODULES, "NAMED": NAMED,
         "TENSORS": TENSORS, "BY_NAME": BY_NAME, "ORDERED": ORDERED, "NUMBERS": {1, 2, 3, 4, 5}}  # fmt: skip


def program(text: str) -> Any:
    """The function f of a program."""
    space = dict(SPACE)
    exec(compile(text, "<program>", "exec"), space)
    return space["f"]


LOOPS = """
LAYERS: layer
MODULES: layer
tuple(LAYERS): layer
enumerate(LAYERS): i, layer
enumerate(MODULES, 7): i, layer
enumerate(tuple(TENSORS)): i, t
zip(LAYERS, TENSORS): layer, t
zip(MODULES, TENSORS, strict=True): layer, t
enumerate(zip(LAYERS, TENSORS)): i, (layer, t)
zip(LAYERS, range(9)): layer, i
zip(itertools.count(), LAYERS): i, layer
zip(itertools.count(10, -3), LAYERS): i, layer
zip(LAYERS, itertools.repeat(LAYERS[0])): layer, again
zip(LAYERS, itertools.repeat(2, 9)): layer, two
BY_NAME: name
BY_NAME.keys(): name
BY_NAME.values(): layer
BY_NAME.items(): name, layer
enumerate(BY_NAME.items()): i, (name, layer)
reversed(BY_NAME): name
reversed(BY_NAME.values()): layer
ORDERED.items(): name, layer
NAMED.items(): name, layer
NUMBERS: number
reversed(LAYERS): layer
reversed(tuple(LAYERS)): layer
enumerate(reversed(LAYERS)): i, layer
map(lambda layer: layer, LAYERS): layer
map(lambda layer, t: (layer, t + 1), LAYERS, TENSORS): layer, t
filter(lambda layer: layer is not None, LAYERS): layer
filter(None, LAYERS): layer
itertools.islice(LAYERS, None): layer
itertools.islice(MODULES, 1, None): layer
enumerate(itertools.islice(LAYERS, 2, None)): i, layer
zip(itertools.islice(itertools.count(), 1, None), LAYERS): i, layer
"""
CASES = [line.rsplit(": ", 1) for line in LOOPS.strip().splitlines()]


@pytest.mark.parametrize(("made", "names"), CASES, ids=[made for made, _ in CASES])
def test_each_turn_of_a_loop_loses_the_statement_that_breaks_and_no_more(made, names):
    body = "x = layer(x) + 1" if "layer" in names else "x = x * 2 + 1"
    f = program(f"def f(x):\n    for {names} in {made}:\n        {body}\n        print('turn')\n        x = torch.relu(x)\n    else:\n"
                f"        x = x - 1\n    return x\n")  # fmt: skip
    left_to_python = "islice" in made or "count" in made
    check(
        f,
        vec(2, 3),
        graphs=None if left_to_python else 3,
        breaks=None if left_to_python else ("output", "output"),
    )


def test_a_chain_opens_its_iterables_as_they_come():
    f = program("""
def f(x):
    for layer in itertools.chain(LAYERS[:2], [], LAYERS[2:]):
        x = layer(x) + 1
        print("turn")
        x = torch.relu(x)
    return x
""")
    check(f, vec(2, 3), graphs=None, breaks=None)


def test_the_number_and_the_key_are_the_turns_own():
    f = program("""
def f(x, d):
    seen = []
    for i, (name, t) in enumerate(d.items(), 3):
        x = x + t
        print(i, name)
        seen.append((i, name))
        x = x * i
    return x, seen
""")
    check(f, vec(2), {"a": vec(2), "b": vec(2) + 1, "c": vec(2) * 2}, graphs=None, breaks=None)


def take(x: torch.Tensor, e: Any, times: int) -> Any:
    given = [next(e) for _ in range(times)]
    return x + 1, given, e


ARGUMENTS: dict[str, Any] = {
    "enumerate": lambda: enumerate(["a", "b", "c"], 5),
    "enumerate of an enumerate": lambda: enumerate(enumerate(["a", "b", "c"])),
    "far enumerate": lambda: enumerate(["a", "b", "c"], 2**63 - 2),
    "farther enumerate": lambda: enumerate(["a", "b", "c"], 2**64),
    "zip": lambda: zip([1, 2, 3], "abc", (4, 5, 6)),  # noqa: B905
    "empty zip": lambda: zip(),
    "map": lambda: map(divmod, [9, 8, 7], [2, 3, 4]),
    "filter": lambda: filter(None, [0, 1, 0, 2, 3]),
    "keys": lambda: iter({"a": 1, "b": 2, "c": 3}),
    "values": lambda: iter({"a": 1, "b": 2, "c": 3}.values()),
    "items": lambda: iter({"a": 1, "b": 2, "c": 3}.items()),
    "ordered": lambda: iter(collections.OrderedDict(a=1, b=2, c=3).items()),
    "backwards": lambda: reversed([1, 2, 3]),
    "backward tuple": lambda: reversed((1, 2, 3)),
    "backward items": lambda: reversed({"a": 1, "b": 2, "c": 3}.items()),
    "set": lambda: iter({1, 2, 3}),
}
COPIED_QUIETLY = PYTHON < (3, 12)  # later, copies of itertools' objects warn
ITERTOOLS: dict[str, Any] = {
    "count": lambda: itertools.count(3, 4),
    "repeat": lambda: itertools.repeat("a", 3),
    "starmap": lambda: itertools.starmap(divmod, [(7, 2), (8, 3), (9, 4)]),
    "filterfalse": lambda: itertools.filterfalse(None, [0, 1, 0, 0]),
    "compress": lambda: itertools.compress("abcde", [1, 0, 1, 1, 0]),
    "chain": lambda: itertools.chain([1], [], [2, 3]),
    "slice": lambda: itertools.islice([1, 2, 3, 4, 5], 4),
    "late slice": lambda: itertools.islice([1, 2, 3, 4, 5], 1, None),
    "takewhile": lambda: itertools.takewhile(bool, [1, 2, 3, 0, 5]),
    "dropwhile": lambda: itertools.dropwhile(bool, [1, 2, 0, 3, 4, 5]),
    "pairwise": lambda: itertools.pairwise("abcdef"),
    "product": lambda: itertools.product("ab", [1, 2], (3,)),
    "combinations": lambda: itertools.combinations("abc", 2),
    "combinations with replacement": lambda: itertools.combinations_with_replacement("ab", 2),
    "permutations": lambda: itertools.permutations([1, 2, 3], 2),
    "whole permutations": lambda: itertools.permutations("abc"),
    "cycle": lambda: itertools.cycle([1, 2]),
    "cycle that goes round": lambda: begun(itertools.cycle([1, 2, 3]), 4),
    "accumulate": lambda: itertools.accumulate([1, 2, 3, 4]),
    "accumulate from a start": lambda: itertools.accumulate([3, 1, 9, 2], max, initial=2),
    "begun accumulate": lambda: begun(itertools.accumulate("abcde", initial="x"), 2),
    "zip_longest": lambda: itertools.zip_longest([1], "abc", (4, 5), fillvalue="-"),
    "begun zip_longest": lambda: begun(itertools.zip_longest([1], "abcdef", (4, 5)), 2),
    "count of floats": lambda: itertools.count(0.5, 0.1),
    "slice with steps": lambda: itertools.islice(range(20), 1, 18, 4),
    "calls": lambda: iter([5, 4, 3, 2].pop, 5),
    **(
        {"batched": lambda: itertools.batched("abcdefg", 2)}
        if hasattr(itertools, "batched")
        else {}
    ),
}


CAPTURED = ("repeat",)  # the others go on in Python


def begun(iterator: Any, taken: int) -> Any:
    for _ in range(taken):
        next(iterator)
    return iterator


@pytest.mark.parametrize("times", [0, 1, 2, 3])
@pytest.mark.parametrize("name", ARGUMENTS)
def test_an_iterator_from_outside_stands_where_eager_leaves_it(name, times):
    found = ARGUMENTS[name]()
    if name != "empty zip" or times == 0:
        check(take, vec(2), found, times, graphs=None, breaks=None, again=False)


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("name", ITERTOOLS)
def test_one_of_itertools_from_outside_stands_where_eager_leaves_it(name, times):
    eager, compiled = ITERTOOLS[name](), ITERTOOLS[name]()
    handle = strict_compile(take, backend="eager")
    seen = capture_events(handle)
    expected, found = take(vec(2), eager, times), handle(vec(2), compiled, times)
    assert found[1] == expected[1] and found[2] is compiled
    assert list(itertools.islice(compiled, 9)) == list(itertools.islice(eager, 9))
    assert bool([event for event in seen if type(event).__name__ in ("Break", "Skipped")]) == (
        name not in CAPTURED
    )


@pytest.mark.parametrize("before", [0, 1, 2])
@pytest.mark.parametrize("made", [lambda items: itertools.islice(items, 3), lambda items: itertools.islice(items, 1, 4),
                                  lambda items: itertools.takewhile(lambda item: item != "d", items),
                                  lambda items: itertools.dropwhile(lambda item: item < "c", items),
                                  itertools.pairwise, lambda items: itertools.product(items, "xy"), lambda items: itertools.islice(items, 0),
                                  lambda items: itertools.islice(items, 0, 5, 2), lambda items: itertools.islice(items, 4, 3),
                                  lambda items: itertools.zip_longest(items, "xyz"), lambda items: itertools.accumulate(items, initial="<"),
                                  lambda items: itertools.combinations(items, 2), lambda items: itertools.permutations(items, 1),
                                  lambda items: iter(lambda: next(items), "d"),
                                  *([lambda items: itertools.batched(items, 2)] if hasattr(itertools, "batched") else [])])  # fmt: skip
def test_what_has_begun_is_read_to_its_end(made, before):
    def rest(x, iterator):
        return x + 1, list(iterator), next(iterator, "end")

    handle = strict_compile(rest, backend="eager")
    for text in ("abcdef", "ab", "a", "abcdef"):
        inner, others = iter(text), iter(text)
        eager, compiled = made(inner), made(others)
        for _ in range(before):
            assert next(eager, None) == next(compiled, None)
        assert rest(vec(2), eager)[1:] == handle(vec(2), compiled)[1:]
        assert list(inner) == list(others) and list(eager) == list(compiled) == []


@pytest.mark.parametrize(
    "loop",
    ["for i in itertools.islice(range(9), 4)", "for i in itertools.islice(range(9), 0, 4, 1)"],
)
def test_a_slice_loses_one_statement_a_turn(loop):
    check(around_a_print(loop), vec(2, 3), [], graphs=None, breaks=None)


@pytest.mark.parametrize("loop", ["for i, j in itertools.pairwise(range(5))", "for i, j in itertools.product((0, 1), (2, 3))",
                                  "for i in itertools.takewhile(lambda i: i < 4, range(9))",
                                  "for i, j in zip(range(4), itertools.cycle([5, 6]))",
                                  "for i, j in itertools.zip_longest(range(4), range(2), fillvalue=0)",
                                  "for i in itertools.accumulate([0, 1, 1, 1])", "for i, group in itertools.groupby([0, 0, 1, 2, 2, 3])",
                                  "for i, j in itertools.combinations([0, 1, 2, 3], 2)"])  # fmt: skip
def test_others_of_itertools_go_on_in_python_behind_a_break(loop):
    """Each turn loses the call of next() besides the statement that breaks, and no operation."""
    f = around_a_print(loop)
    handle = check(f, vec(2, 3), [], graphs=None, breaks=None)
    assert not handle.framejit.explain().skipped and handle.framejit.explain().ops >= 2


def around_a_print(loop):
    return program(f"""
def f(x, seen):
    {loop}:
        x = LAYERS[i](x)
        print(i)
        seen.append(i)
        x = torch.relu(x)
    return x, seen
""")


def groups(taken: int) -> tuple[Any, Any]:
    """A groupby, and its first group, of which some items were taken."""
    found = itertools.groupby([1, 1, 1, 2, 2, 3, 4, 4], key=lambda item: item // 2)
    _, group = next(found)
    return found, begun(group, taken)


GROUPS = {
    "the group, then the next one": lambda found, group: (
        next(group, None),
        *listed(found, 1),
        list(group),
    ),
    "the next one, then the group": lambda found, group: (*listed(found, 1), list(group)),
    "the group alone": lambda found, group: list(group),
    "the second of two at once": lambda found, group: [
        list(other) for _, other in [next(found), next(found)]
    ],
    "all keys": lambda found, group: [key for key, _ in found],
    "to the end and beyond": lambda found, group: (
        listed(found, 9),
        next(found, "end"),
        list(group),
    ),
}


def listed(found: Any, most: int) -> list[Any]:
    return [(key, list(group)) for key, group in itertools.islice(found, most)]


@pytest.mark.parametrize("taken", [0, 1, 3])
@pytest.mark.parametrize("name", GROUPS)
def test_a_groupby_from_outside_and_its_group(name, taken):
    walk = GROUPS[name]

    def f(x, found, group):
        return x + 1, walk(found, group)

    handle = strict_compile(f, backend="eager")
    for _ in range(2):
        eager, compiled = groups(taken), groups(taken)
        assert f(vec(2), *eager)[1] == handle(vec(2), *compiled)[1]
        assert list(eager[1]) == list(compiled[1]) and listed(eager[0], 9) == listed(compiled[0], 9)


def test_a_group_that_outlives_the_frame_goes_on():
    def f(x, ts):
        found = itertools.groupby(ts, key=len)
        first, (size, second) = next(found), next(found)
        return x + size + next(second), first[1], second, found

    ts = [vec(2), vec(2), vec(3), vec(3), vec(3)]
    (_, *eager), (_, *compiled) = f(vec(1), ts), strict_compile(f, backend="eager")(vec(1), ts)
    for mine, yours in zip(eager, compiled, strict=True):
        assert all(
            torch.equal(a, b) if isinstance(a, torch.Tensor) else a[0] == b[0]
            for a, b in zip(mine, yours, strict=True)
        )


def test_a_slice_whose_start_is_behind_its_end_skips_to_the_start():
    def f(x, items):
        walk = iter(items)
        return (
            x + 1,
            list(itertools.islice(walk, 5, 3)),
            next(walk),
            list(itertools.islice(walk, 0, 5, 3)),
            next(walk),
        )

    check(f, vec(2), list(range(20)))


@pytest.mark.skipif(PYTHON < (3, 13), reason="batches are strict since 3.13")
def test_strict_batches():
    def f(x, items):
        seen = []
        try:
            for batch in itertools.batched(items, 2, strict=True):
                seen.append(batch)
        except ValueError as error:
            seen.append(str(error))
        return x + 1, seen

    check(f, vec(2), [1, 2, 3], graphs=None, breaks=None)
    check(f, vec(2), [1, 2, 3, 4], graphs=None, breaks=None)


@pytest.mark.parametrize(
    "walk", ["k in d", "k in d.keys()", "k, v in d.items()", "i, (k, v) in enumerate(d.items())"]
)
@pytest.mark.parametrize(
    "body",
    [
        "print(k); d[k] = d[k] + x",
        "d[k] = d[k] + x; print(k); d[k] = d[k] * 2",
        "print(k); d[k] = x; d['c'] = d[k] + x",
    ],
)
def test_values_replaced_under_the_keys_of_an_iterated_dictionary(walk, body):
    f = program(f"""
def f(x, d):
    for {walk}:
        {body}
    return d, x
""")
    check(f, vec(2), {key: vec(2) + i for i, key in enumerate("abcd")}, graphs=None, breaks=None)


def test_a_value_replaced_ahead_is_what_the_walk_gives():
    f = program("""
def f(x, d):
    seen = []
    for k, v in d.items():
        print(k)
        d[3] = v + x
        seen.append((k, v))
    return d, seen
""")
    check(f, vec(2), {key: vec(2) + key for key in range(5)}, graphs=None, breaks=None)


def test_a_key_that_is_new_or_gone_spoils_the_walk():
    for change in ("d['new'] = x", "del d['a']", "del d['a']; d['a'] = x"):
        f = program(f"""
def f(x, d):
    for k in d:
        print(k)
        {change}
        x = x + 1
    return d
""")
        check(f, vec(2), dict.fromkeys("abcd", 1), graphs=None, breaks=None, skipped=True)


def test_an_iterator_shared_with_its_enumerate_moves_once_a_step():
    def f(x, it, e):
        a = next(e)
        b = next(it)
        c = next(e)
        print("now")
        return x + 1, a, b, c, next(e), it, e

    it = iter(list("abcdefg"))
    check(f, vec(2), it, enumerate(it), graphs=1, breaks=("output",))


def test_a_loop_left_and_taken_up_again_goes_on_where_it_was():
    def f(x, ts):
        e = enumerate(zip(ts, "abcde", strict=False))
        seen = []
        for i, (t, letter) in e:
            x = x + t
            print(letter)
            if i == 1:
                break
        for i, (t, letter) in e:
            if letter == "d":
                continue
            x = x * t
            print(letter)
            seen.append(i)
        return x, seen, next(e, "end")

    check(f, vec(2), [vec(2) + i for i in range(5)], graphs=None, breaks=None)


def test_an_exception_leaves_the_iterator_moved():
    def f(x, e, d):
        for i, (_name, t) in zip(e, d.items(), strict=False):
            x = x + t
            print(i)
            if i == 2:
                raise ValueError(i)
        return x

    check(
        f,
        vec(2),
        itertools.islice(range(9), 9) if COPIED_QUIETLY else iter(range(9)),
        dict.fromkeys("abcd", vec(2)),
        graphs=None,
        breaks=None,
    )


CHANGES = [
    "d['new'] = x",
    "del d['b']",
    "d.clear()",
    "d.pop('a'); d['z'] = x",
    "d['a'] = x + 5",
    "d.update(b=x)",
]
WALKS = [("items", change) for change in CHANGES] + [
    (view, change) for view in ("keys", "values") for change in CHANGES[3:5]
]


@pytest.mark.parametrize(("view", "change"), WALKS)
@pytest.mark.parametrize("where", ["before", "inside", "after"])
def test_a_dictionary_changed_while_it_is_walked(where, view, change):
    change = f"if turn == 1: exec({change!r})" if where == "inside" else f"if turn == 1: {change}"
    lines = {
        "before": [change, "print(turn)"],
        "inside": [change],
        "after": ["print(turn)", change],
    }[where]
    body = "".join(f"        {line}\n" for line in lines)
    f = program(f"def f(x, d):\n    turn = 0\n    given = []\n    for item in d.{view}():\n        turn += 1\n        given.append(item)\n{body}"
                "        x = x + 1\n    return x, d, given\n")  # fmt: skip
    check(f, vec(2), {"a": vec(2), "b": vec(2) + 1, "c": vec(2) + 2}, graphs=None, breaks=None)


@pytest.mark.parametrize("change", ["s.add(9)", "s.discard(1)", "s.clear()"])
def test_a_set_changed_while_it_is_walked(change):
    f = program(
        f"def f(x, s):\n    for n in s:\n        print(n)\n        x = x + n\n        {change}\n    return x, s\n"
    )
    check(f, vec(2), {1, 2, 3}, graphs=None, breaks=None)


@pytest.mark.parametrize(
    "change", ["xs.append(x)", "xs.pop()", "xs.clear()", "xs[:] = [x, x]", "xs[-1] = x * 3"]
)
def test_a_list_changed_while_it_is_walked(change):
    for made in ("xs", "reversed(xs)", "enumerate(xs)", "zip(xs, xs)"):
        f = program(f"def f(x, xs):\n    turn = 0\n    for item in {made}:\n        turn += 1\n        print(turn)\n        x = x + 1\n"
                    f"        if turn < 4:\n            {change}\n    return x, xs, turn\n")  # fmt: skip
        check(f, vec(2), [vec(2), vec(2) + 1, vec(2) + 2], graphs=None, breaks=None)


def test_an_iterator_of_the_list_that_the_frame_changes_is_another_program():
    def f(x, it, xs):
        xs.append(7)
        return x + sum(it)

    handle = strict_compile(f, backend="eager")
    mine: list[int] = [1]
    assert torch.equal(handle(vec(2), iter([1, 2]), [0]), vec(2) + 3)
    assert torch.equal(handle(vec(2), iter(mine), mine), vec(2) + 8)
    assert torch.equal(handle(vec(2), iter([3, 4]), [0]), vec(2) + 7)


def test_what_map_calls_may_break():
    def f(x, ts):
        total = x
        for i, y in enumerate(map(loud, ts)):
            total = total + y * i
        return total

    check(f, vec(2), [vec(2), vec(2) + 1, vec(2) + 2], graphs=None, breaks=None)


def loud(t: torch.Tensor) -> torch.Tensor:
    t = t * 2
    print("loud")
    return t + 1


def test_a_strict_zip_says_which_argument_ends_too_early():
    def f(x, ts, names):
        for t, name in zip(ts, names, strict=True):
            x = x + t
            print(name)
        return x

    check(f, vec(2), [vec(2), vec(2), vec(2)], ["a", "b"], graphs=None, breaks=None, again=False)
    check(f, vec(2), [vec(2)], ["a", "b"], graphs=None, breaks=None, again=False)


def test_iterators_of_other_makes_are_other_programs():
    def f(x, e):
        for pair in e:
            x = x + sum(pair)
        return x

    handle = strict_compile(f, backend="eager")
    for make in (
        lambda: zip([1, 2], [3, 4]),
        lambda: zip([1, 2], [3, 4], [5, 6]),
        lambda: enumerate([7, 8]),
        lambda: zip((1, 2), [3, 4]),
    ):  # noqa: B905
        assert torch.equal(handle(vec(2), make()), f(vec(2), make()))


def test_modules_backwards_in_one_graph():
    def f(x, layers):
        for layer in reversed(layers):
            x = layer(x)
        return x

    check(f, vec(2, 3), MODULES, graphs=1)


def test_reversed_by_length_and_items():
    class Counted:
        def __init__(self, items: list[torch.Tensor]) -> None:
            self.items, self.asked = items, 0

        def __len__(self) -> int:
            self.asked += 1
            return len(self.items)

        def __getitem__(self, index: int) -> torch.Tensor:
            return self.items[index]

    def f(x, c):
        for t in reversed(c):
            x = x * 2 + t
            print("turn")
        return x

    check(f, vec(2), Counted([vec(2), vec(2) + 1]), graphs=None, breaks=None)


def test_an_iterator_inside_that_cannot_be_looked_into_takes_nothing_from_its_neighbours():
    def letters():
        yield from "abc"

    def f(x, ts, log):
        for t, letter, number in zip(ts, letters(), map(number_of, [1, 2, 3, 4]), strict=False):
            x = x + t
            print(letter)
            log.append((letter, number))
        return x, log

    check(f, vec(2), [vec(2) + i for i in range(5)], [], graphs=None, breaks=None)


def test_an_exception_of_what_map_calls_leaves_its_neighbours_moved():
    def f(x, numbers, it):
        pairs = zip(it, map(number_of, numbers), strict=False)
        seen = []
        try:
            for letter, number in pairs:
                print(letter)
                x = x + number
        except ValueError as error:
            seen.append(str(error))
        return x, seen, next(pairs), it

    check(f, vec(2), [1, 2, -1, 4, 5], iter("abcdefg"), graphs=None, breaks=None)


def number_of(number: int) -> int:
    if number < 0:
        raise ValueError(number)
    return number * 2


def test_an_iterator_of_the_programs_own_inside_an_enumerate():
    class Steps:
        def __init__(self, end: int) -> None:
            self.at, self.end = 0, end

        def __iter__(self) -> Any:
            return self

        def __next__(self) -> int:
            if self.at == self.end:
                raise StopIteration
            self.at += 1
            return self.at

    def f(x, steps):
        for i, step in enumerate(steps):
            x = x + step
            print(i, steps.at)
            x = x * 2
        return x

    check(f, vec(2), Steps(4), graphs=None, breaks=("output",) * 3)


def test_a_method_of_a_chain_behind_a_break():
    def f(x, it):
        following = it.__next__
        following()
        print(x.sum().item())
        return x + 1, following(), it

    check(f, vec(2), itertools.chain("ab", "cd"), graphs=None, breaks=None)


class Asked:
    """Its own iterator, which notes that it was asked for it."""

    def __init__(self):
        self.count, self.log = 3, []

    def __iter__(self):
        self.log.append("asked")
        return self

    def __next__(self):
        self.count -= 1
        if self.count < 0:
            raise StopIteration
        return self.count


WALKED = {
    "zip": lambda w: zip(range(2), w), "map": lambda w: map(lambda n: n + 1, w), "filter": lambda w: filter(None, w),
    "islice": lambda w: itertools.islice(w, 2), "takewhile": lambda w: itertools.takewhile(lambda n: n > 0, w),
}  # fmt: skip


@pytest.mark.parametrize("kind", WALKED)
def test_an_object_is_asked_for_its_iterator_once(kind):
    make = WALKED[kind]

    def f(x, walk):
        for item in make(walk):
            print("turn")
            x = x * 2 + (item if isinstance(item, int) else item[0])
        return x, walk.log

    assert check(f, vec(2), Asked(), graphs=None, breaks=None)(vec(2), Asked())[1] == ["asked"]


class Counted:
    """An iterator that notes who asks it for what."""

    def __init__(self, log, last):
        self.log, self.last, self.at = log, last, 0

    def __iter__(self):
        self.log.append("iter")
        return self

    def __next__(self):
        self.log.append("next")
        self.at += 1
        if self.at > self.last:
            raise StopIteration
        return self.at


class Bare:
    """An iterator without __iter__, which goes on behind its ends."""

    def __init__(self):
        self.at = 0

    def __next__(self):
        self.at += 1
        if self.at % 3 == 0:
            raise StopIteration(f"end {self.at}")
        return self.at


class Holds:
    def __init__(self, held):
        self.held = held

    def __iter__(self):
        return self.held


MADE = """
enumerate(o)
enumerate(o, 5)
zip(o, p)
zip([1, 2, 3], o)
map(lambda v: v + 1, o)
filter(lambda v: v > 1, o)
itertools.chain(o, p)
itertools.chain.from_iterable(iter([o, p]))
itertools.islice(o, 3)
itertools.takewhile(lambda v: v < 3, o)
itertools.dropwhile(lambda v: v < 2, o)
itertools.filterfalse(lambda v: v == 2, o)
itertools.starmap(lambda a, b: a + b, zip(o, p))
itertools.compress(o, p)
itertools.compress([1, 2, 3], o)
itertools.cycle(o)
itertools.accumulate(o)
itertools.zip_longest(o, p)
itertools.pairwise(o)
itertools.groupby(o)
enumerate(map(lambda v: v, o))
""".strip().splitlines()


@pytest.mark.parametrize("begun", [0, 1])
@pytest.mark.parametrize("made", MADE)
def test_an_iterator_is_asked_for_itself_once(made, begun):
    f = program(f"def f(x, o, p, log):\n    e = {made}\n" + "    next(e)\n" * begun + """    log.append("break")
    print("here")
    got = []
    for item in itertools.islice(e, 4):
        got.append(item[0] if type(item) is tuple else item)
    return x + 1, got
""")  # fmt: skip
    log: list = []
    check(f, vec(2), Counted(log, 3), Counted(log, 2), log, graphs=None, breaks=None)


def test_iterators_that_leave_the_frame_are_not_asked_again():
    def f(x, o, p):
        e, z = enumerate(o), zip(o, p)
        next(z)
        return x + 1, e, z, map(abs, o), filter(None, o), itertools.islice(p, 9)

    log: list = []
    handle = strict_compile(f, backend="eager")
    for run in (f, handle):
        log.clear()
        results = run(vec(2), Counted(log, 3), Counted(log, 2))
        assert log == ["iter"] * 3 + ["next"] * 2 + ["iter"] * 3
        assert next(results[1]) == (0, 2) and next(results[5]) == 2
    assert not handle.framejit.explain().breaks


def test_iterators_that_have_no_iter_and_go_on_behind_their_ends():
    def f(x, o):
        got = []
        z, m = zip(o, itertools.count()), map(abs, o)
        print("here")
        got += [*z, "end", *z]
        try:
            next(m), next(m)
        except StopIteration as error:
            got.append(error.value)
        print("there")
        e = enumerate(o)
        print("and there")
        return x + 1, got, [*m, *e, *e]

    check(f, vec(2), Holds(Bare()), graphs=None, breaks=None)


class Stop(StopIteration):
    pass


class Ends:
    def __init__(self, error):
        self.error = error

    def __iter__(self):
        return self

    def __next__(self):
        raise self.error("brought")


def test_what_an_exhausted_iterator_brings():
    def generated():
        yield 1
        return "returned"

    def delegating(it):
        return (yield from it)

    def f(x):
        got = [[*Ends(Stop)], [*zip(Ends(Stop))], [*map(lambda v: next(iter([])), [1])]]
        made = generated()
        next(made)
        for it in (
            made,
            Ends(StopIteration),
            Ends(Stop),
            map(lambda v: next(Ends(StopIteration)), [1]),
            delegating(Ends(Stop)),
        ):
            try:
                next(it)
            except StopIteration as error:
                got.append((type(error), error.value, error.args))
            got.append(next(it, "default"))
        for item in Ends(Stop):
            got.append(item)
        return x + 1, got

    check(f, vec(2))


def test_a_value_sent_through_an_iterator_that_takes_none():
    def through(items):
        yield from items

    def f(x):
        made = through([1, 2])
        next(made)
        try:
            made.send(3)
        except AttributeError as error:
            return x + 1, str(error)

    check(f, vec(2), graphs=None, breaks=None)


def walked_beside_a_change(x, one, other, changed):
    changed.append(x)
    return x + len(list(one)), len(list(other))


def walked_by_two_loops(x, one, other, changed):
    one, other = iter(one), iter(other)
    next(one)
    framejit.graph_break()
    changed.append(x)
    for _ in zip(one, other):
        x = x + 1
    return x, len(list(other))


SAME_LISTS = {
    "none": (0, 1, 2),
    "both": (0, 0, 2),
    "first": (0, 1, 0),
    "second": (0, 1, 1),
    "all": (0, 0, 0),
}


@pytest.mark.parametrize("first", SAME_LISTS)
@pytest.mark.parametrize(
    "f", [walked_beside_a_change, walked_by_two_loops], ids=lambda f: f.__name__
)
def test_which_iterators_walk_one_list_is_guarded(f, first):
    handle = strict_compile(f, backend="eager")
    for places in (SAME_LISTS[first], *SAME_LISTS.values()):
        told = []
        for run in (f, handle):
            lists = [[torch.ones(1) for _ in range(3)] for _ in range(3)]
            one, other, changed = (lists[place] for place in places)
            given = (iter(one), iter(other)) if f is walked_beside_a_change else (one, other)
            told.append(str(run(vec(1), *given, changed)))
        assert told[0] == told[1], places
