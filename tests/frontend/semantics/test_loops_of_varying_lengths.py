"""A loop over range(n) with an n that varies is unrolled for a few lengths; then its iterations are
compiled for any length."""

from __future__ import annotations

import framejit
import pytest
import torch

X = torch.arange(4.0)


def plain(x, n):
    for i in range(n):
        x = x * 0.5 + i
    return x


def nested(x, n):
    for i in range(n):
        for j in range(2):
            x = x * 0.5 + i * j
    return x + n


def collected(x, n):
    found = []
    for i in range(n):
        if i == 2:
            continue
        found.append(x * i)
    return torch.stack([x, *found]).sum(0), len(found)


def with_else(x, n):
    for i in range(n):
        if i > 6:
            break
        x = x.cos()
    else:
        x = x - 1
    return x


def over_rows(x, n):
    x = x.repeat(n, 1)
    for i in range(x.shape[0]):
        x[i] = x[i] * i
    return x


def used_otherwise(x, n):
    numbers = range(n)
    return x * len(numbers) + (3 in numbers), numbers, list(numbers)


def called(x, n):
    return plain(x, n) * 2


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize(
    "f", [plain, nested, collected, with_else, over_rows, called], ids=lambda f: f.__name__
)
def test_lengths_that_vary(f, backend):
    handle, settled = framejit.compile(f, backend=backend), 0
    for n in (1, 2, 3, 4, 5, 9, 7, 0, 12, 30, 5, 12, 9):
        torch.testing.assert_close(handle(X, n), f(X, n))
        settled = handle.framejit.compiles if n == 30 else settled
    assert handle.framejit.compiles == settled <= 20
    assert not any(
        "run in eager" in skipped.reason for skipped in handle.framejit.explain().skipped
    )


def test_a_few_lengths_are_unrolled():
    handle = framejit.compile(plain, backend="eager")
    for n in (2, 3, 2, 3, 2):
        assert torch.equal(handle(X, n), plain(X, n))
    assert handle.framejit.compiles == 2 and not handle.framejit.explain().breaks


def test_under_fullgraph_each_length_is_unrolled():
    handle = framejit.compile(plain, backend="eager", fullgraph=True)
    for n in range(1, 7):
        assert torch.equal(handle(X, n), plain(X, n))
    assert handle.framejit.compiles == 6


def test_a_range_that_is_no_loop():
    handle = framejit.compile(used_otherwise, backend="eager")
    for n in range(2, 9):
        got, expected = handle(X, n), used_otherwise(X, n)
        assert torch.equal(got[0], expected[0]) and got[1:] == expected[1:]


def with_bounds(x, n):
    for start in range(1, n - 2, 2):
        x = x * 0.5 + start
    return x


def while_inside(x, n):
    start = 0
    while start + 4 <= n:
        x = x * 0.5 + start
        start += 2
    return x


def over_a_list(x, n):
    total = 0.0
    for y in [x] * n:
        total = total + y.sum()
    return x + total


def over_given(x, items):
    for item in items:
        x = x * 0.5 + item
    return x


def over_given_rows(x, items):
    for i, item in enumerate(items):
        x = x * i + item
    return x


def over_pairs(x, items):
    for item, other in zip(items, items * 2):
        x = x * other + item
    return x


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("f", [with_bounds, while_inside, over_a_list], ids=lambda f: f.__name__)
def test_more_lengths_that_vary(f, backend):
    handle, settled = framejit.compile(f, backend=backend), 0
    for n in (5, 7, 9, 11, 13, 17, 15, 3, 21, 30, 13, 21, 17):
        torch.testing.assert_close(handle(X, n), f(X, n))
        settled = handle.framejit.compiles if n == 30 else settled
    assert handle.framejit.compiles == settled <= 16


@pytest.mark.parametrize("given", [list, torch.stack])
@pytest.mark.parametrize("f", [over_given, over_given_rows, over_pairs], ids=lambda f: f.__name__)
def test_loops_over_what_is_given(f, given):
    if given is list and f is over_pairs:
        pytest.skip("a list times 2 is longer")
    handle, settled = framejit.compile(f, backend="eager"), 0
    for n in (2, 3, 4, 5, 6, 9, 1, 12, 30, 5, 12, 9):
        items = given([torch.full((4,), i / 8) for i in range(n)])
        torch.testing.assert_close(handle(X, items), f(X, items))
        settled = handle.framejit.compiles if n == 30 else settled
    assert handle.framejit.compiles == settled <= 14


def test_a_loop_of_a_fixed_length_stays_unrolled():
    scales = [lambda x: x + 1, lambda x: x * 2]

    def f(x, key):
        for scale in scales:
            x = scale(x)
        return x + len(key)

    handle = framejit.compile(f, backend="eager")
    for n in range(8):
        for size in (2, 3):
            x = torch.ones(size)
            assert torch.equal(handle(x, "a" * n), f(x, "a" * n))
    assert not handle.framejit.explain().breaks
