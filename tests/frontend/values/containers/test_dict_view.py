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
