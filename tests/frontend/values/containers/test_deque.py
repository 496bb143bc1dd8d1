"""Deques: one that a comparison changes."""

from __future__ import annotations

import collections

import framejit
import pytest
import torch


class Clears:
    """Equal to nothing; a comparison empties the deque."""

    def __init__(self, items):
        self.items = items

    def __eq__(self, other):
        self.items.clear()
        return NotImplemented


@pytest.mark.parametrize("use", [lambda items: 3 in items, lambda items: items.count(3)])
@pytest.mark.parametrize("backend", ["eager", "native"])
def test_a_comparison_that_changes_a_deque_raises(use, backend):
    def f(x):
        items = collections.deque()
        items.extend([Clears(items), Clears(items)])
        return x + use(items)

    for fn in (f, framejit.compile(f, backend=backend)):
        with pytest.raises(RuntimeError, match="deque mutated during iteration"):
            fn(torch.ones(2))
