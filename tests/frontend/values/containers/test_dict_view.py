"""Views of dictionaries that existed before the frame: objects keep them, and so does the state at
a break."""

from __future__ import annotations

from collections import OrderedDict

import framejit
import pytest
import torch

X = torch.ones(2)


class Kept:
    def __init__(self, table):
        self.keys, self.values, self.items = table.keys(), table.values(), table.items()


def reads(x, kept):
    keys = kept.keys
    return x + len(keys), "a" in keys, [*keys], sum(kept.values), dict(kept.items), bool(keys), keys


@pytest.mark.parametrize("cls", [dict, OrderedDict])
def test_reads(cls):
    table = cls(a=1, b=2)
    kept = Kept(table)
    handle = framejit.compile(reads, backend="eager", fullgraph=True)
    for name in ("a", "c", "c", "d"):
        result = handle(X, kept)
        assert repr(result) == repr(reads(X, kept)) and result[-1] is kept.keys
        table[name] = 5


@pytest.mark.parametrize("cls", [dict, OrderedDict])
def test_a_view_shows_what_the_frame_stores(cls):
    def f(x, kept, table):
        table["z"] = 3
        return len(kept.keys), [*kept.items], x * 2

    handle = framejit.compile(f, backend="eager", fullgraph=True)
    mine, its = cls(q=1), cls(q=1)
    assert repr(handle(X, Kept(mine), mine)) == repr(f(X, Kept(its), its))
    assert mine == its


def test_a_loop_over_a_view_with_a_break():
    def f(x, kept):
        for _, value in kept.items:
            print(end="")
            x = x + value
        return x

    kept = Kept({"a": 1, "b": 2})
    handle = framejit.compile(f, backend="eager")
    for _ in range(2):
        assert torch.equal(handle(X, kept), f(X, kept))
    assert len(handle.framejit.explain().breaks) == 1


@pytest.mark.parametrize("cls", [dict, OrderedDict])
def test_special_methods_called_by_name(cls):
    def f(x, kept, table):
        found = [kept.keys.__contains__(name) for name in ("q", "z")]
        own = {"q": 1}.keys()
        has = own.__contains__
        return (
            x * 2,
            found,
            has("q"),
            own.__len__(),
            kept.items.__contains__(("q", 1)),
            [*kept.keys.__iter__()],
            [*table.values().__iter__()],
        )

    handle = framejit.compile(f, backend="eager", fullgraph=True)
    table = cls(q=1)
    assert repr(handle(X, Kept(table), table)) == repr(f(X, Kept(table), table))
    table["z"] = 1
    assert repr(handle(X, Kept(table), table)) == repr(f(X, Kept(table), table))


def test_methods_that_are_left_to_python():
    def f(x, table):
        return x * 2, table.keys().isdisjoint(["b"]), table.keys().__contains__("a")

    handle = framejit.compile(f, backend="eager")
    assert repr(handle(X, {"a": 1})) == repr(f(X, {"a": 1}))
