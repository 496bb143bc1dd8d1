"""sorted() by numbers that vary between calls."""

from __future__ import annotations

import framejit
import pytest
import torch
from framejit import events


def by_values(x):
    scores = x.tolist()
    best = sorted(range(3), key=lambda number: -scores[number])
    return x * 2 + best[0]


def by_values_in_place(x):
    scores = [(score, number) for number, score in enumerate(x.tolist())]
    scores.sort(key=lambda pair: pair[0], reverse=True)
    return x * 2 + scores[0][1]


def compiled(function):
    seen = []
    with framejit.config.patch(sinks=(seen.append,)):
        return framejit.compile(function, backend="eager"), seen


def count(seen, kind):
    return sum(isinstance(event, kind) for event in seen)


@pytest.mark.parametrize("function", [by_values, by_values_in_place])
def test_python_sorts_by_floats_that_vary(function):
    """A guarded order would hold for one call."""
    handle, seen = compiled(function)
    for seed in range(8):
        x = torch.randn(3, generator=torch.Generator().manual_seed(seed))
        torch.testing.assert_close(handle(x), function(x))
    breaks = {str(event) for event in seen if isinstance(event, events.Break)}
    assert any("a sort by floats that vary" in reason for reason in breaks), breaks
    assert count(seen, events.CompileStarted) <= 4


def test_an_order_of_sizes_is_guarded_and_not_the_sizes():
    def f(*tensors):
        return torch.cat([one * n for n, one in enumerate(sorted(tensors, key=len))])

    handle, seen = compiled(f)
    for n in range(2, 10):
        given = [torch.ones(n + 4), torch.ones(n), torch.ones(n + 7)]
        torch.testing.assert_close(handle(*given), f(*given))
    assert count(seen, events.CompileStarted) == 2
    given = [torch.ones(4), torch.ones(5), torch.ones(7)]
    torch.testing.assert_close(handle(*given), f(*given))
    assert count(seen, events.CompileStarted) == 3
