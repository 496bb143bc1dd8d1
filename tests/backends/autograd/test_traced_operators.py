"""Operators traced with their backward passes."""

import framejit
import pytest
import torch
from framejit.backends.autograd import aot_eager


def mask_of_chance(x):
    mask = torch.bernoulli(x[0], p=0.5)
    return torch.where(mask == 1, x, 0) * 2


def product_with_chance(x):
    return x * torch.bernoulli(x[0], p=0.5)


def outcome(run):
    torch.manual_seed(0)
    x = torch.rand(4, 5, requires_grad=True)
    try:
        result = run(x)
        result.sum().backward()
    except RuntimeError as error:
        return str(error)
    return result.tolist(), x.grad.tolist()


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
@pytest.mark.parametrize("program", [mask_of_chance, product_with_chance])
def test_an_operator_without_a_derivative(program, backend):
    """Its result may be used where no gradient flows; else the backward pass raises."""
    with framejit.config.patch(suppress_errors=False):
        compiled = framejit.compile(program, backend=backend)
    assert outcome(compiled) == outcome(program)


class RunningSum(torch.autograd.Function):
    """Writes into memory of its own."""

    @staticmethod
    def forward(ctx, x, weight):
        sums = x.clone()
        for step in range(1, x.shape[1]):
            sums[:, step].add_(sums[:, step - 1] * weight)
        ctx.save_for_backward(weight, sums)
        return sums

    @staticmethod
    def backward(ctx, gradient):
        weight, sums = ctx.saved_tensors
        left = gradient.clone()
        for step in range(left.shape[1] - 1, 0, -1):
            left[:, step - 1].add_(left[:, step] * weight)
        return left, (left[:, 1:] * sums[:, :-1]).sum()


class CountingProduct(torch.autograd.Function):
    """Writes into an input that is no result."""

    @staticmethod
    def forward(ctx, x, count):
        ctx.save_for_backward(x, count)
        y = x * count
        count.add_(1)
        return y

    @staticmethod
    def backward(ctx, gradient):
        x, count = ctx.saved_tensors
        return gradient * x.cos(), None


class WrittenGradient(torch.autograd.Function):
    """Its backward pass writes into the gradient that it gets."""

    @staticmethod
    def forward(ctx, x):
        return x.sin(), x * 2

    @staticmethod
    def backward(ctx, one, other):
        return one.mul_(2) + other


def train(call, sizes):
    torch.manual_seed(0)
    results = []
    for size in sizes:
        x = torch.randn(size, 6, requires_grad=True)
        weight = torch.tensor(0.5, requires_grad=True)
        result = call(x, weight)
        result.backward()
        results += [result, x.grad, weight.grad]
    return results


def sum_of_running_sums(x, weight):
    y = RunningSum.apply(x.sin(), weight)
    return RunningSum.apply(y.mT.contiguous(), weight).cos().sum()


def count_products(x, weight):
    count = weight.detach().clone()
    y = CountingProduct.apply(x * weight, count)
    return (y * count).sum()


def written_gradient(x, weight):
    one, other = WrittenGradient.apply(x * weight)
    return (one * other.exp()).sum() + one.sum()


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
@pytest.mark.parametrize("program", [sum_of_running_sums, count_products, written_gradient])
def test_functions_that_write(program, backend):
    compiled = framejit.compile(program, backend=backend)
    for mine, its in zip(train(compiled, (3, 4, 5)), train(program, (3, 4, 5)), strict=True):
        torch.testing.assert_close(mine, its)


@pytest.mark.parametrize("size", [3, 4])
def test_a_function_of_the_program_needs_no_trace_of_the_whole_graph(size, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("traced whole")

    monkeypatch.setattr(aot_eager, "compile_with_aot_autograd", refuse)
    compiled = framejit.compile(sum_of_running_sums, backend="native", dynamic=size == 4)
    with framejit.config.patch(suppress_errors=False):
        made = train(compiled, [size])
    torch.testing.assert_close(made, train(sum_of_running_sums, [size]))
