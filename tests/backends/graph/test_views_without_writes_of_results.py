"""Results of a compiled graph that are windows on memory may be written to where eager's may, and
gradients are eager's then."""

from __future__ import annotations

import framejit
import pytest
import torch

from ...frontend.semantics.harness import check, vec

BACKENDS = ("eager", "aot_eager", "native")


def windows_of_one(x, p):
    r = x * p
    one, other = r.view(2, 6), r.view(3, 4)
    one.add_(1)
    return one, other


def written_in_part(x, p):
    r = x * p
    r[1].clamp_(max=0.3)
    return r


def by_windows(x, p):
    a = p * 1
    b = a.view(-1)
    b.mul_(2)
    c = a.t()
    c.add_(x.t())
    b[3:5] = 0
    return a, b, c


def beside_what_is_detached(x, p):
    r = x * p
    return r.detach(), r


class Same(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 3


class Flat(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view(-1)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.view(4, 3) * 3


def an_input_of_a_function(x, p):
    return Same.apply(p * 1), (x + p).sin()


def a_view_by_a_function(x, p):
    return (Flat.apply((x * p).sin().exp()),)


ALL = [
    windows_of_one,
    written_in_part,
    by_windows,
    beside_what_is_detached,
    an_input_of_a_function,
    a_view_by_a_function,
]


def after_writing(f, number):
    """What writing into a result gives: the results and gradients, or the error."""
    x, p = vec(4, 3), vec(4, 3, grad=True)
    results = f(x, p)
    results = results if isinstance(results, tuple) else (results,)
    try:
        results[number % len(results)].mul_(1.5)
    except RuntimeError as error:
        return [str(error)]
    total = sum((result * result).sum() for result in results if result.requires_grad)
    try:
        return [*(result.detach() for result in results), *torch.autograd.grad(total, p)]
    except RuntimeError as error:
        return [str(error)]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("f", ALL, ids=lambda f: f.__name__)
def test_written_to(f, number, backend):
    eager, compiled = (
        after_writing(f, number),
        after_writing(framejit.compile(f, backend=backend), number),
    )
    assert len(eager) == len(compiled), compiled
    for one, other in zip(eager, compiled, strict=True):
        assert one == other if isinstance(one, str) else torch.allclose(one, other)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("grad", [True, False])
def test_an_input_that_a_function_returns_while_no_history_is_kept(grad, backend):
    def f(x):
        return Same.apply(x), x * 2

    with torch.no_grad():
        check(f, vec(4, 3, grad=grad), backend=backend)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_results_of_a_graph_without_gradients_may_get_a_history(backend):
    def f(a, b, p):
        part = a.chunk(2)[1]
        y = torch.stack([b, b])
        print(end="")
        y.add_(p)
        return y, part

    p = torch.ones(3, requires_grad=True)
    y, _ = framejit.compile(f, backend=backend)(
        torch.ones(4, requires_grad=True) * 1, torch.ones(3), p
    )
    y.sum().backward()
    assert p.grad.tolist() == [2, 2, 2]
