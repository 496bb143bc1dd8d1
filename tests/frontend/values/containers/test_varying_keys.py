"""Dictionaries that are looked up by another key in each call: few compiles, eager's results and
contents."""

from __future__ import annotations

import copy
from collections import Counter, OrderedDict, defaultdict

import framejit
import pytest
import torch

TEXTS = [f"k{i % 7}" for i in range(14)]
NUMBERS = [i % 7 for i in range(14)]


def tensor(x, table, key):
    return x * 2 + table[key]


def written_tensor(x, table, key):
    table[key].add_(1)
    return x + table[key]


def with_default(x, table, key):
    return x * 2 if key in table else x, table.get(key, 1.5)


def total(x, table, key):
    table[key] = table.get(key, 0.0) + 0.5
    return x + table[key]


def counted(x, table, key):
    table[key] += 1
    return x * 2


def gathered(x, table, key):
    table[key].append(x.sum().item())
    return x * 2


def set_once(x, table, key):
    return x + table.setdefault(key, 3)


def missing(x, table, key):
    try:
        return x + table[key]
    except KeyError as error:
        return x, error.args


def stored_and_read(x, table, key):
    table[key] = x * 2
    return table[key] + 1, key in table


def two_keys(x, table, key):
    table["k0"] = 1.0
    table[key] = table.get(key, 0) + 2.0
    return x + table["k0"]


def both_paths(x, table, key):
    table[key].append(1)
    return x + len(table["k3"]), table[key] is table["k3"]


def next_key(x, table, key):
    return x + table[key + 1], table[key % 2]


def tensors(keys):
    return {key: torch.full((2,), float(i)) for i, key in enumerate(sorted({*keys}, key=str))}


CASES = {
    "tensor": (tensor, TEXTS, tensors(TEXTS), 2),
    "tensor by number": (tensor, NUMBERS, tensors(NUMBERS), 2),
    "written tensor": (written_tensor, TEXTS, tensors(TEXTS), 2),
    "with default": (with_default, TEXTS, {"k1": 1.0, "k3": 2.0, "k5": 3.0}, 4),
    "total": (total, TEXTS, {}, 3),
    "total by number": (total, NUMBERS, {}, 3),
    "counter": (counted, TEXTS, Counter(), 3),
    "lists": (gathered, TEXTS, defaultdict(list), 3),
    "set once": (set_once, TEXTS, OrderedDict(), 3),
    "missing": (missing, TEXTS, {"k2": 1, "k4": 2}, 4),
    "stored and read": (stored_and_read, TEXTS, {}, 2),
    "two keys": (two_keys, TEXTS, {}, None),
    "both paths": (both_paths, TEXTS, {key: [] for key in TEXTS}, None),
    "next key": (next_key, NUMBERS, {i: i * 0.5 for i in range(9)}, 3),
}


@pytest.mark.parametrize("name", CASES)
def test_another_key_is_no_reason_to_compile_again(name):
    f, keys, table, most = CASES[name]
    handle, mine, its = framejit.compile(f, backend="eager"), copy.deepcopy(table), table
    its = copy.deepcopy(table)
    for step, key in enumerate(keys):
        x = torch.full((2,), float(step))
        assert repr(handle(x.clone(), mine, key)) == repr(f(x.clone(), its, key)), key
        assert repr(mine) == repr(its)
    assert most is None or handle.framejit.compiles <= most, handle.framejit.explain()


class Loud(dict):
    def __missing__(self, key):
        return len(key)


@pytest.mark.parametrize("cls", [Loud, dict])
def test_a_subclass_answers_for_missing_keys(cls):
    def f(x, table, key):
        return x + table[key] if key in table or cls is Loud else x

    handle = framejit.compile(f, backend="eager")
    table = cls(k1=1.0)
    for key in ("k1", "long", "longer", "k1", "longest"):
        assert torch.equal(handle(torch.ones(2), table, key), f(torch.ones(2), table, key))


def test_one_tensor_under_the_key_and_as_an_argument():
    def f(x, table, key):
        x.add_(1)
        return table[key] * 2, table[key] is x

    handle = framejit.compile(f, backend="eager")
    for key in ("a", "b", "c", "a", "b"):
        table = {name: torch.zeros(2) for name in "abc"}
        other = copy.deepcopy(table)
        mine, its = handle(table["b"], table, key), f(other["b"], other, key)
        assert torch.equal(mine[0], its[0]) and mine[1] is its[1]


def test_what_kind_of_item_is_found_is_guarded():
    def f(x, table, key):
        item = table[key]
        return x if item is None else x * item

    handle = framejit.compile(f, backend="eager")
    table = {"a": 2.0, "b": None, "c": 3, "d": True, "e": torch.ones(2), "f": None, "g": 4.0}
    for key in "abcdefg" * 2:
        assert torch.equal(handle(torch.ones(2), table, key), f(torch.ones(2), table, key))
    assert handle.framejit.compiles <= 6
