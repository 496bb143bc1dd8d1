"""Objects as keys of dictionaries and members of sets: equal to themselves alone, or as their class says."""
from __future__ import annotations

from typing import Any

import pytest
import torch

from .harness import strict_compile, vec


class Plain:
    def method(self) -> None:
        pass


def closure() -> Any:
    def inner() -> int:
        return 1

    return inner


PAIRS = {
    "objects": lambda: (Plain(), Plain()),
    "methods": lambda: (Plain().method, Plain().method),
    "functions": lambda: (closure(), closure()),
    "tensors": lambda: (vec(2), vec(2)),
    "parameters": lambda: (torch.nn.Parameter(vec(2)), torch.nn.Parameter(vec(2))),
    "modules": lambda: (torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)),
    "dtypes": lambda: (torch.float32, torch.float64),
}
LOOKUPS = {
    "in a dictionary": lambda a, b, d: (b in {a: 1}, {a: 1}.get(b)),
    "in a set": lambda a, b, d: (b in {a}, len({a, b})),
    "in one from outside": lambda a, b, d: (b in d, d.get(b, "none")),
    "in a tuple": lambda a, b, d: ((b, 1) in {(a, 1): 2},),
    "stored": lambda a, b, d: (d.setdefault(b, 2), len(d), d.pop(b, None)),
    "of sets": lambda a, b, d: (len({a} & {b}), {a} == {b}, {a}.isdisjoint([b])),
}


@pytest.mark.parametrize("lookup", LOOKUPS)
@pytest.mark.parametrize("kind", PAIRS)
def test_two_objects_as_keys_may_be_one_at_the_next_call(kind, lookup):
    ask = LOOKUPS[lookup]

    def f(x, a, b, d):
        return x + 1, ask(a, b, d)

    a, b = PAIRS[kind]()
    handle = strict_compile(f, backend="eager")
    for other in (b, a, b, a):
        assert handle(vec(2), a, other, {a: 1})[1] == f(vec(2), a, other, {a: 1})[1]
