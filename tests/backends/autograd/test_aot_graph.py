"""Graphs that aot_autograd has traced and AotGraph runs: results, gradients, views, writes and
errors are eager's."""

from __future__ import annotations

import framejit
import pytest
import torch
from framejit.backends.autograd import ahead_of_time, aot_eager, graph_parts
from framejit.backends.autograd.aot_graph import AotGraph, AotPlan, ResultView, Tangent


@pytest.fixture
def made(monkeypatch):
    """The AotGraphs that are made. Graphs are not split, so that several results come from one, nor
    assembled operator by operator."""
    found = []
    monkeypatch.setattr(graph_parts, "partition_once", lambda gm, decompositions: None)
    monkeypatch.setattr(ahead_of_time, "split_graph", lambda gm: None)

    def tell(*args):
        found.append(AotGraph(*args))
        return found[-1]

    monkeypatch.setattr(aot_eager, "AotGraph", tell)
    return found


def view_of_input(x, b):
    return x.t(), x * 2


def input_itself(x, b):
    return x, x.sin()


def view_of_result(x, b):
    y = x * 2
    return y.view(-1), y


def two_views_of_one_tensor(x, b):
    y = x.sin()
    return y[0], y.t()


def view_without_gradient(x, b):
    return x.detach().t(), x.exp()


def complex_view(x, b):
    return torch.view_as_real(torch.complex(x, x)), x * 3


def write_into_buffer(x, b):
    b.add_(x.detach().sum())
    return x * b


def write_into_intermediate_input(x, b):
    y = x * 1
    y[:, 0] = 0
    return y.t(), y.sum()


def several_gradients(x, b):
    return x.sum(0), (x * b).exp(), x.shape[0] * x


PROGRAMS = (
    view_of_input,
    input_itself,
    view_of_result,
    two_views_of_one_tensor,
    view_without_gradient,
    complex_view,
    write_into_buffer,
    write_into_intermediate_input,
    several_gradients,
)


def observe(program, rows, leaf, grad):
    """All that can be seen of a call: results, what they share memory with, gradients, the written
    buffer, and what a write into the first result changes."""
    start = torch.arange(rows * 3.0).sin().reshape(rows, 3)
    if grad:
        start.requires_grad_()
    x = start if leaf else start * 1
    b = torch.ones(3)
    results = program(x, b)
    tensors = (*results, x, b) if isinstance(results, tuple) else (results, x, b)
    values = [tensor.detach().clone() for tensor in tensors]
    facts = [(tensor.stride(), tensor.dtype, tensor.requires_grad) for tensor in tensors]
    shared = [
        [
            one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()
            for other in tensors
        ]
        for one in tensors
    ]
    total = sum(tensor.sum() for tensor in tensors[:-2] if tensor.requires_grad)
    gradient = torch.autograd.grad(total, start)[0] if isinstance(total, torch.Tensor) else None
    return (values, gradient), (facts, shared, b._version)


@pytest.mark.parametrize("grad", [True, False], ids=["gradients", "inference"])
@pytest.mark.parametrize("leaf", [True, False], ids=["leaf", "intermediate"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize("backend", ["aot_eager", "native"])
@pytest.mark.sweep(3)
def test_calls(made, program, leaf, grad, backend):
    compiled = framejit.compile(program, backend=backend, dynamic=True)
    for rows in (3, 5, 4):
        (values, facts), (wanted, wanted_facts) = (
            observe(run, rows, leaf, grad) for run in (compiled, program)
        )
        torch.testing.assert_close(values, wanted)
        assert facts == wanted_facts
    assert made or not grad


def test_writes_into_a_view_reach_its_base(made):
    def program(x):
        y = x * 2
        return y, y[0]

    compiled = framejit.compile(program, backend="aot_eager", dynamic=True)
    for run in (program, compiled):
        x = torch.ones(3, 2, requires_grad=True)
        y, row = run(x)
        row.mul_(10)
        y.sum().backward()
        assert y[0].tolist() == [20, 20] and x.grad.tolist() == [[20, 20], [2, 2], [2, 2]]
    assert made


def test_a_part_of_a_tensor_keeps_the_stride_of_a_dimension_of_size_1(made):
    def program(x):
        joined = torch.cat([x, x.sin()], 2)
        return joined[:, :, -7:]

    compiled = framejit.compile(program, backend="aot_eager", dynamic=True)
    x = torch.randn(3, 1, 11, 8, requires_grad=True)
    part, expected = compiled(x), program(x)
    assert made
    assert part.stride() == expected.stride() == (176, 176, 8, 1)
    part.mul_(2)  # is no write into a view that autograd forbids
    assert part._version == 1


def test_a_second_derivative(made):
    def program(x):
        return (x**3).sum() * x.shape[0], x.t()

    def second(run):
        x = torch.arange(6.0).reshape(3, 2).requires_grad_()
        (first,) = torch.autograd.grad(run(x)[0], x, create_graph=True)
        return torch.autograd.grad(first.sum(), x)[0]

    compiled = framejit.compile(program, backend="aot_eager", dynamic=True)
    torch.testing.assert_close(second(compiled), second(program))


def test_a_backward_pass_twice(made):
    def program(x):
        return x.sin().exp() * x.shape[0], x[0]

    compiled = framejit.compile(program, backend="aot_eager", dynamic=True)
    x = torch.ones(3, 2, requires_grad=True)
    y = compiled(x)[0].sum()
    y.backward(retain_graph=True)
    first = x.grad.clone()
    y.backward()
    torch.testing.assert_close(x.grad, 2 * first)
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()
    assert made


PLAN = AotPlan((), 1, 0, 0, 0, (None,), (), (), (Tangent(0, (2,), (1,), None),), ())


def test_gradients_that_cannot_be_differentiated_again_say_so():
    graph = AotGraph(PLAN, lambda x: (x * 2, x.clone()), lambda saved, given: (given * 2 * saved,))
    x = torch.ones(2, requires_grad=True)
    (first,) = torch.autograd.grad(graph(x)[0].sum(), x, create_graph=True)
    assert first.tolist() == [2, 2] and first.requires_grad
    with pytest.raises(RuntimeError, match="cannot be differentiated"):
        first.sum().backward()


@pytest.mark.parametrize(
    "tangent, given",
    [
        (Tangent(0, (2, 3), (1, 2), None), torch.arange(6.0).reshape(2, 3)),
        (Tangent(0, (2, 3), (3, 1), None), torch.arange(6.0).reshape(3, 2).t()),
        (Tangent(0, None, None, torch.contiguous_format), torch.arange(6.0).reshape(3, 2).t()),
    ],
)
def test_layouts_of_gradients(tangent, given):
    fit = tangent.lay_out(given)
    assert torch.equal(fit, given)
    assert fit.stride() == (tangent.stride or (3, 1))


@pytest.mark.parametrize("wanted", [True, False])
@pytest.mark.parametrize("has", [True, False])
def test_views_require_gradients_as_the_programs_do(wanted, has):
    base = torch.ones(2, 3, requires_grad=has)
    with torch.no_grad():
        like = base.detach().t()
    view = ResultView(0, True, False, wanted, None).make([base], [], like)
    assert view.requires_grad is wanted
    assert view.stride() == (1, 3) and view.data_ptr() == base.data_ptr()
