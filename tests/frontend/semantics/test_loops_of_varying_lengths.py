"""A loop over range(n) with an n that varies is unrolled for a few lengths; then its iterations are
compiled for any length."""

from __future__ import annotations

import framejit
import pytest
import torch

from .harness import strict_compile

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


def from_a_start(x, n):
    for i in range(n, 2 * n + 1):
        x = x * 0.5 + i
    return x


def backwards(x, n):
    for i in range(n - 1, -1, -1):
        x = x * 0.5 + i
    return x


def in_reverse(x, n):
    for i in reversed(range(1, n)):
        x = x * 0.5 + i
    return x


def numbered(x, n):
    for i, j in enumerate(range(1, n)):
        x = x * 0.5 + i * j
    return x


def window(x, n):
    rows = torch.arange(320.0).view(80, 4)
    for i in range(n, n + 3):
        x = x * 0.5 + rows[i]
    return x, [j for j in reversed(range(n, n + 4, 2))], range(n, n + 2), iter(range(n, n + 2))


def used_otherwise(x, n):
    numbers = range(n)
    return x * len(numbers) + (3 in numbers), numbers, list(numbers)


def called(x, n):
    return plain(x, n) * 2


def listed(x, n):
    for i in list(range(n)):
        x = x * 0.5 + i
    return x


def stacked(x, n):
    found = [x]
    for i in list(range(n)):
        found.append(x * i)
    return torch.stack(found).sum(0)


@pytest.mark.parametrize(("f", "most"), [(listed, 8), (stacked, 14)], ids=["listed", "stacked"])
def test_lists_of_ranges_are_left_to_python_as_ranges_are(f, most):
    handle = framejit.compile(f, backend="eager")
    for n in (*range(1, 25), 0, 31, 40):
        assert torch.equal(handle(X, n), f(X, n))
    assert handle.framejit.compiles <= most


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize(
    "f",
    [
        plain,
        nested,
        collected,
        with_else,
        over_rows,
        called,
        from_a_start,
        backwards,
        in_reverse,
        numbered,
    ],
    ids=lambda f: f.__name__,
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


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_windows_of_one_length_are_unrolled_once(backend):
    handle = framejit.compile(window, backend=backend)
    for n in range(2, 40, 3):
        *got, left = handle(X, n)
        *expected, left_in_eager = window(X, n)
        torch.testing.assert_close(got[0], expected[0])
        assert got[1:] == expected[1:] and [*left] == [*left_in_eager]
    assert handle.framejit.compiles == 2 and not handle.framejit.explain().breaks


def test_windows_longer_than_what_is_unrolled():
    def f(x, n):
        for i in range(n, n + 300):
            x = x * 0.5 + i
        return x

    handle = framejit.compile(f, backend="eager")
    for n in range(2, 9):
        assert torch.equal(handle(X, n), f(X, n))
    assert any("length varies" in one.reason for one in handle.framejit.explain().breaks)


def test_the_reason_is_the_length():
    handle = framejit.compile(plain, backend="eager")
    for n in (2, 3, 4, 5, 6, 7):
        handle(X, n)
    breaks = handle.framejit.explain().breaks
    assert breaks
    assert all("length varies" in one.reason for one in breaks), breaks


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


def grows_and_reads_all(x):
    """A loop inside, over all that was kept so far: each item is used by its index."""
    kept = []
    while len(kept) < 20:
        kept.append(x * len(kept))
        if kept[-1].sum() < 0:
            return x
        count = len(kept)
        for i in range(count):
            x = x + kept[i] / 64
    return x


def test_a_loop_left_to_python_has_no_code_for_each_iteration_of_each_length():
    step = strict_compile(grows_and_reads_all, backend="eager")
    for _ in range(3):
        torch.testing.assert_close(step(X), grows_and_reads_all(X))
    assert step.framejit.compiles < 50
