"""Views that autograd forbids to write stay so, whichever backend compiles the graph that
returns them."""

from __future__ import annotations

import framejit
import pytest
import torch

from ...frontend.semantics.harness import check, vec

BACKENDS = ("eager", "aot_eager", "native")


def of_a_result(x, p):
    y = x * p
    return y, y.chunk(2)[0]


def of_an_input(x, p):
    return p.unbind(0)


def without_its_base(x, p):
    return (x * p).split([1, 3])[1], x + 1


def a_view_of_one(x, p):
    y = x + p
    return y.chunk(2)[1].t(), y.view(-1)


def of_a_view(x, p):
    first, second = (x * p).view(2, 6).split(1)
    return second, first.sum()


ALL = [of_a_result, of_an_input, without_its_base, a_view_of_one, of_a_view]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", ALL, ids=lambda f: f.__name__)
def test_python_may_not_write_into_them(f, backend):
    x, p = vec(4, 3), vec(4, 3, grad=True)
    eager, compiled = f(x, p), framejit.compile(f, backend=backend)(x, p)
    pairs = list(zip(eager, compiled, strict=True))
    for one, other in pairs:
        assert torch.equal(one, other)
        assert one.stride() == other.stride()
        assert (one.grad_fn.name() if one._is_view() else None) == (
            other.grad_fn.name() if other._is_view() else None
        )
    for one, other in pairs:
        told = []
        for view in (one, other):
            try:
                view.add_(1)
            except RuntimeError as error:
                told.append(str(error))
        assert len(told) in (0, 2)
        assert len(set(told)) < 2


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", ALL, ids=lambda f: f.__name__)
def test_gradients_flow_through_them(f, backend):
    check(f, vec(4, 3), vec(4, 3, grad=True), backend=backend, backward=True)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_write_raises_before_what_follows(backend):
    def f(x, p, log):
        y = x * p
        part = y.chunk(2)[0]
        part.clamp_(min=0)
        log.append(y)

    check(f, vec(4, 3), vec(4, 3, grad=True), [], backend=backend, graphs=None, breaks=None)


@pytest.mark.parametrize("backend", BACKENDS)
def test_of_what_is_written_later(backend):
    def f(x, p):
        y = x * p
        parts = y.chunk(2)
        with torch.no_grad():
            y.add_(1)
        return parts[0], y * 2

    check(f, vec(4, 3), vec(4, 3, grad=True), backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_sizes_that_vary(backend):
    compiled = framejit.compile(of_a_result, backend=backend, dynamic=True)
    for rows in (4, 6, 8):
        x, p = vec(rows, 3), vec(rows, 3, grad=True)
        whole, part = compiled(x, p)
        assert torch.equal(part, (x * p)[: rows // 2])
        assert part.grad_fn.name().startswith("Split")
        (whole.sum() + part.sum()).backward()
        expected = x.clone()
        expected[: rows // 2] *= 2
        assert torch.equal(p.grad, expected)


@pytest.mark.parametrize("backend", ["aot_eager", "native", "torchscript"])
def test_a_tensor_and_a_view_of_all_of_it_are_two(backend):
    """Python gives one of them another shape behind the graph."""

    def f(x):
        whole = x - 1
        view = whole[:]
        view.add_(1)
        whole.unsqueeze_(0)
        return view, whole

    handle = framejit.compile(f, backend=backend)
    for mine, yours in zip(handle(torch.arange(3.0)), f(torch.arange(3.0)), strict=True):
        assert mine.shape == yours.shape and torch.equal(mine, yours)
