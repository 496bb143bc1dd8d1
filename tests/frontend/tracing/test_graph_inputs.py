"""A graph that writes into its inputs starts over where an expectation fails: the inputs are
restored first."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ..semantics.harness import strict_compile


def contiguous(numbers):
    return numbers


def transposed(numbers):
    return numbers.reshape(2, 3).t()


def strided(numbers):
    return torch.stack([numbers, numbers], 1)[:, 0]


def expanded(numbers):
    return numbers[:1].expand(6)[:1]


def view_of_a_view(numbers):
    return numbers[1:][:3]


def array(numbers):
    return numbers.numpy()


def assertion(x, written):
    written += 1
    assert (x > 0).all(), "not all are positive"
    return x * 2, written.sum()


def assertion_before(x, written):
    assert (x > 0).all(), "not all are positive"
    written *= 3
    return x * 2, written.sum()


def raise_of_an_error(x, written):
    written[0] = 7
    if (x < 0).any():
        raise ValueError("negative")
    written -= 1
    return x.sin()


def random_numbers(x, written):
    written += 1
    y = torch.rand(3)
    assert (x > 0).all()
    return x * y


def written_twice(x, written):
    other = written[1:]
    other += 2
    written *= 2
    assert (x > 0).all()
    return x + 1


PROGRAMS = [assertion, assertion_before, raise_of_an_error, random_numbers, written_twice]
LAYOUTS = [contiguous, transposed, strided, expanded, view_of_a_view, array]


def outcome(function, x, written):
    torch.manual_seed(0)
    try:
        result = function(x, written)
    except (AssertionError, ValueError) as error:
        # without pytest's explanation, which has addresses
        result = type(error), str(error).split("\n")[0].split("assert")[0]
    return result, torch.rand(2)


def alike(one, other):
    if isinstance(one, tuple):
        assert len(one) == len(other)
        for pair in zip(one, other, strict=True):
            alike(*pair)
    elif isinstance(one, torch.Tensor):
        torch.testing.assert_close(other, one)
        assert one.stride() == other.stride()
    else:
        assert one == other


def compare(function, compiled, make, signs):
    """Calls both with the same numbers, and compares results, errors and the whole memory."""
    for sign in signs:
        memory = [torch.arange(1.0, 7.0) for _ in range(2)]
        x = torch.tensor([1.0, 2.0, 3.0]) * torch.tensor([1.0, 1.0, sign])
        expected = outcome(function, x, make(memory[0]))
        alike(expected, outcome(compiled, x, make(memory[1])))
        alike(memory[0], memory[1])


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("make", LAYOUTS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)
def test_inputs_are_restored(function, make, backend):
    compiled = strict_compile(function, backend=backend)
    compare(function, compiled, make, [1, 1, -1, 1, -1, -1, 1])
    report = compiled.framejit.explain()
    assert not report.breaks and len(report.captures) == 1


def test_only_the_graph_that_may_start_over_saves():
    """An input that shares memory with another is restored with it."""

    def program(x, one, other):
        one.add_(1)
        y = other * 2
        other.mul_(y.sum())
        assert (x > 0).all()
        return y

    compiled = strict_compile(program)
    for sign in (1, -1, 1, -1):
        found = []
        for function in (program, compiled):
            memory = torch.arange(6.0)
            try:
                result = function(torch.tensor([1.0, sign]), memory[:4], memory[2:])
            except AssertionError:
                result = torch.zeros(())
            found.append((result, memory))
        alike(*found)


@pytest.mark.parametrize(
    ("make", "breaks"),
    [
        (lambda: torch.zeros(1 << 13), False),
        (lambda: torch.zeros((1 << 13) + 1), True),
        (lambda: np.zeros(1 << 12), False),
        (lambda: np.zeros((1 << 12) + 1), True),
        (lambda: torch.zeros(3, requires_grad=True) * 1, True),
        (lambda: torch.zeros(3), False),
    ],
    ids=["large", "too large", "large array", "too large array", "gradients", "small"],
)
def test_which_inputs_are_saved(make, breaks):
    """Not those of more than 32 KiB, and none whose history the write extends."""

    def program(x, written):
        written += 1
        if not (x > 0).all():
            raise ValueError("not all are positive")
        return x * 2

    compiled = strict_compile(program)
    for sign in (1, 1, -1, 1):
        x = torch.tensor([1.0, sign])
        ours, theirs = make(), make()
        found, expected = outcome(compiled, x, ours), outcome(program, x, theirs)
        alike(expected, found)
        assert (np.asarray(as_plain(ours)) == np.asarray(as_plain(theirs))).all()
    ids = {one.id for one in compiled.framejit.explain().breaks}
    assert bool(ids & {"data-dependent-branch", "unknown-call"}) == breaks


def as_plain(given):
    return given.detach() if isinstance(given, torch.Tensor) else given


def test_a_caught_failure_is_a_break_the_next_time():
    def program(x, written):
        try:
            written.add_(1)
            if not (x > 0).all():
                raise ValueError("not all are positive")
        except ValueError:
            written.sub_(5)
        return x + written

    compiled = strict_compile(program)
    compare(program, compiled, contiguous_three, [1, -1, 1, -1])
    assert len(compiled.framejit.explain().breaks) == 1


def contiguous_three(numbers):
    return numbers[:3]
