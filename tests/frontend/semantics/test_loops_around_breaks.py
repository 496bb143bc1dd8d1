"""A break in a loop whose body depends on the iteration: each iteration is compiled once, and
none is left to Python."""

from __future__ import annotations

import functools
from typing import Any

import framejit
import pytest
import torch
from framejit import events

from .harness import capture_events, check, strict_compile, vec

LAYERS = torch.nn.ModuleList(torch.nn.Linear(3, 3) for _ in range(40))
SCALES: list[Any] = [
    lambda x: x + 1,
    lambda x: x * 2,
    lambda x: x - 3,
    *(eval(f"lambda x: x * 0.5 + {i}") for i in range(9)),
]


@pytest.fixture(autouse=True)
def _all_at_once():
    """With default settings, how many iterations are compiled depends on the time they take."""
    with framejit.config.patch(compare_calls=False):
        yield


def by_number(x, turns):
    for i in range(turns):
        x = LAYERS[i](x).relu()
        print(i)
    return x


def while_counting(x, turns):
    i = 0
    while i < turns:
        x = LAYERS[i](x).relu()
        print(i)
        i += 1
    return x


def by_name(x, turns):
    for i in range(turns):
        x = getattr(LAYERS, f"{i}")(x).relu()
        print(i)
    return x


def nested(x, turns):
    for i in range(turns // 4):
        for j in range(4):
            x = LAYERS[4 * i + j](x).relu()
            print(i, j)
    return x


def block(x, i):
    print(i)
    return LAYERS[i](x).relu()


def in_a_callee(x, turns):
    for i in range(turns):
        x = block(x, i)
    return x


def from_a_worklist(x, turns):
    todo = list(LAYERS[:turns])
    while todo:
        layer = todo.pop()
        x = layer(x).relu()
        print(len(todo))
    return x


def collecting(x, turns):
    found = []
    for i in range(turns):
        x = LAYERS[i](x).relu()
        found.append(x)
        print(len(found))
    return torch.stack(found)


@pytest.mark.parametrize(
    "loop", [by_number, while_counting, by_name, nested, in_a_callee, from_a_worklist, collecting]
)
def test_each_turn_is_captured(loop):
    check(
        loop,
        vec(2, 3),
        12,
        graphs=13 if loop is collecting else 12,
        breaks=12,
        ran=25 if loop is collecting else 24,
    )


def test_functions_of_a_list():
    def apply(x):
        for scale in SCALES:
            x = scale(x).relu()
            print(x.shape)
        return x

    check(apply, vec(3), graphs=12, breaks=12)


def test_forty_layers():
    handle = check(by_number, vec(2, 3), 40, graphs=40, breaks=40, ran=80)
    (stats,) = [
        one
        for one in framejit.stats().functions
        if one.function == "by_number" and one.entries == 41
    ]
    assert (
        not stats.full
        and not stats.left_to_eager
        and all(miss.for_iteration for miss in stats.misses)
        and len(stats.misses) == 39
    )
    report = handle.framejit.explain()
    assert not report.misses and not report.skipped and not report.specialised
    (turns,) = report.iterations
    assert (
        turns.times == 39
        and turns.what == "next(<range_iterator>)"
        and f"{turns}" in report.details()
    )


def test_entries_are_found_in_the_order_of_the_turns():
    """What followed the last time is tried first: a pass looks at one entry a turn, so none is
    overtaken in the list."""
    handle = strict_compile(by_number)
    for _ in range(3):
        handle(vec(2, 3), 12)
    (site,) = [site for site in handle.framejit.cache.sites() if len(site.entries) > 1]
    assert [entry.hits for entry in site.entries] == [3] * 12


def test_other_sizes_compile_each_turn_once_more():
    handle = strict_compile(by_number)
    for rows in (2, 5, 7, 9):
        x = vec(rows, 3)
        assert torch.equal(handle(x, 12), by_number(x, 12))
    assert handle.framejit.compiles <= 26, [miss.failures for miss in handle.framejit.cache.misses]
    assert not any(site.full for site in handle.framejit.cache.sites())


def test_the_first_pass_is_no_recompile_and_the_second_compiles_nothing():
    with framejit.config.patch(error_on_recompile=True, strict=True):
        handle = framejit.compile(by_number)
    x = vec(2, 3)
    assert torch.equal(handle(x, 12), by_number(x, 12))
    with framejit.set_stance("fail_on_recompile"):
        assert torch.equal(handle(x, 12), by_number(x, 12))
        with pytest.raises(framejit.RecompileError, match="fail_on_recompile"):
            handle(vec(5, 3), 12)
    with pytest.raises(framejit.RecompileError, match="error_on_recompile"):
        handle(vec(5, 3), 12)


def table_of(x, table, turns):
    for i in range(turns):
        x = x * table[i]
        print(i)
    return x


def test_a_longer_loop_is_left_to_python_and_reported():
    table = [float(i % 3 + 1) / 2 for i in range(1000)]
    handle = strict_compile(table_of)
    seen = capture_events(handle)
    for _ in range(2):
        assert torch.equal(handle(vec(2), table, 1000), table_of(vec(2), table, 1000))
    assert handle.framejit.compiles <= 10
    (full,) = [event for event in seen if isinstance(event, events.Full)]
    assert (
        full.iterations_left > 900
        and f"{full.iterations_left} more iterations of a loop"
        in handle.framejit.explain().details()
    )


def test_a_loop_that_does_not_say_how_long_it_is_stops_at_the_limit():
    def counting(x, table, turns):
        i = 0
        while i < turns:
            x = x * table[i]
            print(i)
            i += 1
        return x

    table = [1.0, 2.0] * 30
    with framejit.config.patch(unroll_iterations=20):
        handle = strict_compile(counting)
    seen = capture_events(handle)
    assert torch.equal(handle(vec(2), table, 60), counting(vec(2), table, 60))
    assert max(len(site.entries) for site in handle.framejit.cache.sites()) == 20
    (full,) = [event for event in seen if isinstance(event, events.Full)]
    assert full.limit == 20 and "unroll_iterations" in handle.framejit.explain().details()


def test_what_does_not_differ_from_turn_to_turn_counts():
    def scaled(x, names, key):
        for _ in range(3):
            x = names[key](x)
            print(key)
        return x

    names = {f"k{i}": functools.partial(torch.mul, other=float(i)) for i in range(20)}
    with framejit.config.patch(recompile_limit=4):
        handle = strict_compile(scaled)
    for key in names:
        assert torch.equal(handle(vec(2), names, key), scaled(vec(2), names, key))
    assert (
        max(len(site.entries) for site in handle.framejit.cache.sites()) == 4 + 1
    )  # the loop's end


def test_a_long_loop_over_numbers_that_vary_stays_a_loop():
    def f(x, first, kept):
        for i in range(1500):
            kept.append(first + i)
            if kept[-1] < first:
                return x
        return x * len(kept)

    handle = strict_compile(f, backend="eager")
    for first in (2, 3, 4):
        mine, yours = [], []
        torch.testing.assert_close(
            handle(torch.ones(2), first, yours), f(torch.ones(2), first, mine)
        )
        assert mine == yours
    assert "long-loop" in {b.id for b in handle.framejit.explain().breaks}
