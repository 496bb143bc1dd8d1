"""Derivatives of the backward pass of a compiled graph."""

from __future__ import annotations

import framejit
import pytest
import torch
from framejit.backends.autograd.compiled_node import (
    CALLS_AS_CAPTURED,
    DIFFERENTIABLE_PASSES,
    Backward,
    gradient_edge,
)
from torch.autograd import grad


def writes_what_it_reads(x, y, w):
    with torch.no_grad():
        w.add_(w, alpha=0.1)
    unused = grad((x * x).sum(), [w], create_graph=True, allow_unused=True)
    return (y * y).sum(), unused


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
def test_a_graph_that_cannot_run_again_refuses_second_derivatives(backend):
    """The compiler's own backward pass has a history without `y`."""
    x, w = torch.tensor([1.0, 2.0], requires_grad=True), torch.nn.Parameter(torch.ones(2))
    y = x * x
    result, _ = framejit.compile(writes_what_it_reads, backend=backend)(x, y, w)
    (first,) = grad(result, x, create_graph=True)
    torch.testing.assert_close(first.detach(), 4 * x.detach() ** 3)
    with pytest.raises(RuntimeError, match="second derivatives"):
        grad(first.sum(), x)


def beside_an_unused_leaf(x):
    y = x.exp() * 0.1
    print(end="")
    y.detach().clone().requires_grad_()
    return grad((x * x).sum() * 2, x, create_graph=True)[0]


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
def test_a_node_none_of_whose_inputs_gets_a_gradient_is_differentiated(backend):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    compiled = framejit.compile(beside_an_unused_leaf, backend=backend)
    for run in (beside_an_unused_leaf, compiled, compiled):
        (second,) = grad(run(x).sum(), x)
        torch.testing.assert_close(second, torch.full((2,), 4.0))


def by_an_operand_of_a_write(y, w):
    z = y.clone()
    z.mul_(w)
    return (y * z).sum()


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
def test_an_input_that_is_an_operand_of_a_write_is_not_what_is_written(backend):
    found = []
    for run in (
        by_an_operand_of_a_write,
        framejit.compile(by_an_operand_of_a_write, backend=backend),
    ):
        y, w = (torch.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
        first = grad(run(y, w), [y, w], create_graph=True)
        found.append(grad(sum((one**2).sum() for one in first), [y, w]))
    torch.testing.assert_close(*found)


def unrelated_results(y, w):
    return w + w * 2, (y * y).sin(), y.detach() + 1


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
def test_a_pass_goes_on_behind_no_input_that_it_does_not_reach(backend):
    x, w = (torch.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
    first, second, _ = framejit.compile(unrelated_results, backend=backend)(x * x, w)
    second.sum().backward()  # frees `x * x`
    first.sum().backward()
    torch.testing.assert_close(w.grad, torch.full((2,), 3.0))


class OpaqueWrapper(torch.Tensor):
    """A wrapper subclass without operators."""

    @staticmethod
    def __new__(cls):
        return torch.Tensor._make_wrapper_subclass(cls, (2, 3), requires_grad=True)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise NotImplementedError(func)


def test_edges_of_gradients_need_no_operator_of_a_tensor():
    x = torch.ones(3, requires_grad=True)
    first, second = (x * 2).split([1, 2])
    leaf, inner = gradient_edge(OpaqueWrapper()), gradient_edge(second)
    assert type(leaf.node).__name__ == "AccumulateGrad" and leaf.output_nr == 0
    assert inner.node is second.grad_fn and inner.output_nr == 1
    assert gradient_edge(first).output_nr == 0


def test_calls_whose_backward_passes_are_differentiated_run_as_captured():
    """The code of both passes would be run beside eager's."""
    ran = []

    @framejit.backends.registry.register_backend("counting_passes", wants="aten")
    def counting(gm, example_inputs):
        def run(*args):
            ran.append(gm)
            return gm.forward(*args)

        return run

    compiled = framejit.compile(lambda x: (x.sin() * x).sum(), backend="counting_passes")
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    for _ in range(DIFFERENTIABLE_PASSES):
        grad(compiled(x), x, create_graph=True)
    before = len(ran)
    for _ in range(CALLS_AS_CAPTURED):
        (first,) = grad(compiled(x), x, create_graph=True)
        (second,) = grad(first.sum(), x)
        torch.testing.assert_close(second, 2 * x.cos() - x * x.sin())
    assert len(ran) == before
    for _ in range(DIFFERENTIABLE_PASSES):  # plain passes are what compiled calls are for
        grad(compiled(x), x)
    assert len(ran) == before + 2 * DIFFERENTIABLE_PASSES


def test_a_compiled_node_corrects_its_gradients_without_a_hook():
    """A hook costs as much as a small graph."""
    compiled = framejit.compile(lambda x: (x.sin() * x).exp().sin().sum(), backend="native")
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    for _ in range(2):
        node = compiled(x).grad_fn
        assert isinstance(node.correct, Backward)
