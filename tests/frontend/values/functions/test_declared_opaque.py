"""framejit.opaque: calls of functions that no capture looks into are nodes of one graph."""

from __future__ import annotations

import framejit
import numpy as np
import pytest
import torch
from framejit import errors

from ...semantics.harness import check, strict_compile, vec

BACKENDS = ("eager", "aot_eager", "native", "autotune", "inductor")
calls: list[str] = []


@framejit.opaque(like=torch.empty_like)
def cumulated(x):
    """By NumPy, which a capture cannot follow."""
    return torch.from_numpy(np.cumsum(x.detach().numpy(), axis=0))


def splits(x, at, scale=1.0):
    data = x.detach().numpy() * scale
    return torch.from_numpy(data[:at].copy()), [torch.from_numpy(data[at:].copy())]


splits = framejit.opaque(splits, like=lambda x, at, scale=1.0: (x[:at].clone(), [x[at:].clone()]))


class Squared(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.from_numpy(x.detach().numpy() ** 2)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad


def square(x):
    if x.numel() < 0:
        print(np.version)
    return Squared.apply(x)


square = framejit.opaque(square, like=torch.empty_like, differentiable=True)


def between(x):
    y = cumulated(x * 2)
    return y.sin() + x


def of_several(x, w):
    first, rest = splits(x, 1, scale=2.0)
    return first.sum() * w + rest[0].sum()


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_graph(backend):
    check(between, vec(3), backend=backend)
    check(between, vec(3, grad=True), backward=True, backend=backend)
    check(of_several, vec(3), vec(2, grad=True), backward=True, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_of_a_differentiable_function(backend):
    def fn(x):
        return square(x.sin()) * x

    check(fn, vec(3, grad=True), backward=True, backend=backend)
    check(fn, vec(3), backend=backend)


def test_a_function_written_in_c():
    erfinv = framejit.opaque(torch.special.erfinv.__call__, like=torch.empty_like)

    def fn(x):
        return erfinv(x) + 1

    check(fn, vec(3) / 2)


def test_an_example_of_the_result():
    total = framejit.opaque(
        lambda x: torch.tensor(float(np.sum(x.numpy()))), like=torch.tensor(0.0)
    )

    def fn(x):
        return total(x) * x

    check(fn, vec(3))


def test_sizes_that_vary():
    step = strict_compile(between, backend="eager", dynamic=True)
    for n in (3, 5, 7):
        torch.testing.assert_close(step(vec(n)), between(vec(n)))
    assert step.framejit.compiles == 1


def test_calls_keep_their_order_and_number():
    @framejit.opaque(like=torch.empty_like)
    def noted(x, name):
        calls.append(name)
        return x.clone()

    def fn(x):
        noted(x, "unread")
        return noted(noted(x, "first") + 1, "second")

    for backend in ("eager", "aot_eager", "native"):
        step = strict_compile(fn, backend=backend)
        step(vec(3))
        calls.clear()
        step(vec(3))
        assert calls == ["unread", "first", "second"]


def returns_double(x):
    return x.double()


def returns_its_argument(x):
    return x


def returns_a_number(x):
    return 3


@pytest.mark.parametrize("function", [returns_double, returns_its_argument, returns_a_number])
def test_results_that_are_not_as_promised_run_in_eager(function, monkeypatch):
    monkeypatch.setattr(errors, "_warned", set())
    declared = framejit.opaque(function, like=torch.empty_like)

    def fn(x):
        y = declared(x)
        y *= 2
        return y + 1

    step = framejit.compile(fn, backend="eager")
    with pytest.warns(errors.FramejitWarning, match=f"{function.__name__} returned"):
        made = step(vec(3))
    expected = fn(vec(3))
    assert type(made) is type(expected)
    torch.testing.assert_close(made, expected)


def test_an_error_of_the_function_is_the_programs():
    @framejit.opaque(like=torch.empty_like)
    def fails(x):
        raise KeyError("mine")

    def fn(x):
        try:
            return fails(x)
        except KeyError as error:
            return x + len(error.args)

    check(fn, vec(3), again=False, breaks=None, skipped=True)


def test_what_is_not_callable_is_refused():
    with pytest.raises(TypeError, match="callable"):
        framejit.opaque(3, like=torch.empty_like)
