"""Tensor.backward() inside what is compiled: one graph with the forward pass, or a break."""

from __future__ import annotations

import copy
import warnings

import framejit
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from ...semantics.harness import strict_compile, vec

BACKENDS = ("eager", "aot_eager", "native")


def leaf(*shape, dtype=torch.float32):
    return nn.Parameter(vec(*shape, dtype=dtype) + 1)


def layout(tensor):
    return "" if tensor is None else f"{tensor.stride()} {tensor.dtype} {tensor.requires_grad}"


def run(make, compile, calls=3):
    """What some calls of a program return, and the gradients and content of its leaves after each.
    make() gives the function, its arguments, and the leaves."""
    torch.manual_seed(0)
    function, args, leaves = make()
    function = compile(function)
    seen = []
    for number in range(calls):
        torch.manual_seed(number)
        result = function(*args)
        grads = [None if one.grad is None else one.grad.clone() for one in leaves]
        kept = result.detach().clone() if isinstance(result, torch.Tensor) else result
        layouts = [layout(one.grad) for one in leaves]
        layouts.append(layout(result) if isinstance(result, torch.Tensor) else "")
        seen.append((kept, grads, [one.detach().clone() for one in leaves]))
        seen.append(layouts)
    return seen, function


def assert_equal(got, wanted, rtol=1e-4):
    torch.testing.assert_close(got[::2], wanted[::2], rtol=rtol, atol=1e-5)
    assert got[1::2] == wanted[1::2]


def check_backward(make, backend, breaks=0):
    """The program gives the same in eager and compiled, with so many breaks."""
    wanted, _ = run(make, lambda function: function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        got, function = run(make, lambda function: strict_compile(function, backend=backend))
    assert_equal(got, wanted, 1e-2 if make is in_autocast else 1e-4)  # bfloat16 has 8 bits
    assert len(function.framejit.explain().breaks) == breaks


def simple():
    p = leaf(4)

    def f(x):
        loss = (p * x).sin().sum()
        loss.backward()
        return loss.detach()

    return f, [vec(4)], [p]


def attached_result():
    p = leaf(4)

    def f(x):
        loss = (p * x).sin().sum()
        loss.backward()
        return loss

    return f, [vec(4)], [p]


def set_to_none_each_time():
    p = leaf(4)

    def f(x):
        p.grad = None
        (p * x).square().sum().backward()
        return p.grad * 2

    return f, [vec(4)], [p]


def gradients_set_to_none_afterwards():
    p = leaf(4)

    def f(x):
        (p * x).square().sum().backward()
        with torch.no_grad():
            p.sub_(0.1 * p.grad)
        p.grad = None

    return f, [vec(4)], [p]


def expanded_gradient():
    p = leaf(3, 4)

    def f(x):
        p.grad = None
        (p.sum() * x.sum()).backward()
        p.grad.mul_(2)

    return f, [vec(4)], [p]


def one_gradient_of_two_leaves():
    p, q = leaf(4), leaf(4)

    def f(x):
        p.grad = q.grad = None
        ((p + q) * x).sum().backward()
        p.grad.add_(1)

    return f, [vec(4)], [p, q]


def a_given_gradient():
    p, given = leaf(4), vec(4)

    def f(x):
        p.grad = None
        (p + x).backward(given)
        p.grad.add_(1)
        return given

    return f, [vec(4)], [p]


def transposed_leaf():
    p = nn.Parameter(vec(3, 4).t())

    def f(x):
        p.grad = None
        (p @ x).sin().sum().backward()

    return f, [vec(3, 2)], [p]


def leaf_with_holes():
    p = vec(4, 6)[:, ::2].requires_grad_()

    def f(x):
        p.grad = None
        (p * x).sum().backward()

    return f, [vec(4, 3)], [p]


def two_passes():
    p, q = leaf(4), leaf(4)

    def f(x):
        (p * x).sin().sum().backward()
        (p * q).cos().sum().backward()

    return f, [vec(4)], [p, q]


def retained():
    p = leaf(4)

    def f(x):
        loss = (p * x).sin().sum()
        loss.backward(retain_graph=True)
        loss.backward()

    return f, [vec(4)], [p]


def frozen_and_unused_leaves():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4))
    model[1].requires_grad_(False)

    def f(x):
        model.zero_grad()
        model[1](model[0](x)).square().sum().backward()

    return f, [vec(3, 4)], list(model.parameters())


def tied_weights():
    table, head = nn.Embedding(8, 4), nn.Linear(4, 8, bias=False)
    head.weight = table.weight

    def f(ids):
        loss = F.cross_entropy(head(table(ids)), ids)
        loss.backward()
        return loss

    return f, [torch.tensor([1, 5, 1])], [table.weight]


def dropout_and_batch_norm():
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5))

    def f(x):
        model.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss

    return f, [(vec(6, 4) * 7).sin()], [*model.parameters()]


def convolution():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 3))

    def f(x):
        model.zero_grad()
        model(x).square().mean().backward()

    return f, [vec(2, 3, 8, 8)], list(model.parameters())


def convolution_in_channels_last():
    model = nn.Sequential(nn.Conv2d(4, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 1))
    model = model.to(memory_format=torch.channels_last)

    def f(x):
        model.zero_grad()
        model(x.to(memory_format=torch.channels_last)).square().mean().backward()

    return f, [vec(2, 4, 8, 8)], list(model.parameters())


def beside_numbers_that_vary():
    p, rates = leaf(4), [0.5]

    def f(x):
        scaled = x * rates[0]
        rates[0] += 0.25
        p.grad = None
        (p * scaled).sum().backward()

    return f, [vec(4)], [p]


def under_no_grad():
    p = leaf(4)

    def f(x):
        loss = (p * x).sin().sum()
        with torch.no_grad():
            loss.backward()
        return loss.detach()

    return f, [vec(4)], [p]


def in_autocast():
    model = nn.Linear(4, 4)

    def f(x):
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(x).float().square().sum()
        loss.backward()
        return loss.detach()

    return f, [vec(3, 4)], list(model.parameters())


def accumulated_over_parts():
    model = nn.Linear(4, 2)

    def f(x):
        model.zero_grad()
        total = 0.0
        for part in x.chunk(3):
            loss = model(part).square().mean() / 3
            loss.backward()
            total = total + loss.detach()
        return total

    return f, [vec(6, 4)], list(model.parameters())


def in_place_on_the_leaf_afterwards():
    p = leaf(4)

    def f(x):
        p.grad = None
        (p * x).sin().sum().backward()
        with torch.no_grad():
            p.add_(p.grad, alpha=-0.1)
        return p.sum().detach()

    return f, [vec(4)], [p]


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 3


def custom_function():
    p = leaf(4)

    def f(x):
        p.grad = None
        Doubled.apply(p * x).sum().backward()

    return f, [vec(4)], [p]


def checkpointed():
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())

    def f(x):
        model.zero_grad()
        checkpoint(model, x, use_reentrant=False).square().sum().backward()

    return f, [vec(3, 4)], list(model.parameters())


def scaled_by_a_scaler():
    model, scaler = nn.Linear(4, 2), torch.amp.GradScaler("cpu", enabled=False)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def f(x):
        optimizer.zero_grad()
        scaler.scale(model(x).square().mean()).backward()
        scaler.step(optimizer)

    return f, [vec(3, 4)], list(model.parameters())


ONE_GRAPH = [
    simple, attached_result, set_to_none_each_time, gradients_set_to_none_afterwards,
    expanded_gradient, one_gradient_of_two_leaves, a_given_gradient, transposed_leaf,
    leaf_with_holes, two_passes, retained, frozen_and_unused_leaves, tied_weights,
    dropout_and_batch_norm, convolution, convolution_in_channels_last,
    beside_numbers_that_vary, under_no_grad, in_autocast, accumulated_over_parts,
    in_place_on_the_leaf_afterwards, custom_function, checkpointed, scaled_by_a_scaler,
]  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("make", ONE_GRAPH, ids=lambda make: make.__name__)
def test_a_pass_in_one_graph(make, backend):
    check_backward(make, backend)


def hook_on_a_leaf():
    p = leaf(4)
    p.register_hook(lambda grad: grad * 2)

    def f(x):
        p.grad = None
        (p * x).sum().backward()

    return f, [vec(4)], [p]


def tripled(p):
    p.grad.mul_(3)


def hook_after_accumulation():
    p = leaf(4)
    p.register_post_accumulate_grad_hook(tripled)

    def f(x):
        p.grad = None
        (p * x).sum().backward()

    return f, [vec(4)], [p]


def hook_on_a_result():
    p = leaf(4)

    def f(x):
        p.grad = None
        y = p * x
        y.register_hook(lambda grad: grad * 2)
        y.sum().backward()

    return f, [vec(4)], [p]


def retained_gradient_of_a_result():
    p = leaf(4)

    def f(x):
        p.grad = None
        y = p * x
        y.retain_grad()
        y.square().sum().backward()
        return y.grad.detach()

    return f, [vec(4)], [p]


def only_some_inputs():
    p, q = leaf(4), leaf(4)

    def f(x):
        (p * q * x).sum().backward(inputs=[p])

    return f, [vec(4)], [p, q]


def a_graph_of_the_pass():
    p = leaf(4)

    def f(x):
        p.grad = None
        (p * x).pow(3).sum().backward(create_graph=True)
        return p.grad.square().sum().detach()

    return f, [vec(4)], [p]


def sparse_gradient():
    table = nn.Embedding(6, 3, sparse=True)

    def f(ids):
        table.weight.grad = None
        table(ids).sum().backward()
        return table.weight.grad.to_dense()

    return f, [torch.tensor([1, 2, 1])], []


def leaf_of_the_frame():
    def f(x):
        p = (x * 2).detach().requires_grad_()
        (p * x).sum().backward()
        return p.grad

    return f, [vec(4)], []


def a_result_with_another_history():
    p, q = leaf(4), leaf(4)

    def f(x):
        loss = (p * x).sin().sum()
        loss.backward()
        return (q * x).sin()

    return f, [vec(4)], [p, q]


def input_with_a_history_read_without_gradients_first():
    p = leaf(4)

    def f(x):
        with torch.no_grad():
            doubled = x * 2
        (x * p).sum().backward(retain_graph=True)
        return doubled

    return f, [p * p], [p]


LEFT_TO_PYTHON = [
    hook_on_a_leaf, hook_after_accumulation, hook_on_a_result, retained_gradient_of_a_result,
    only_some_inputs, a_graph_of_the_pass, sparse_gradient, leaf_of_the_frame,
    a_result_with_another_history, input_with_a_history_read_without_gradients_first,
]  # fmt: skip


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("make", LEFT_TO_PYTHON, ids=lambda make: make.__name__)
def test_a_pass_left_to_python(make, backend):
    wanted, _ = run(make, lambda function: function)
    got, function = run(make, lambda function: strict_compile(function, backend=backend))
    assert_equal(got, wanted)
    assert function.framejit.explain().breaks


def test_a_leaf_gets_a_hook_later():
    p, x = leaf(4), vec(4)

    def f(x):
        p.grad = None
        (p * x).sum().backward()

    handle = strict_compile(f, backend="eager")
    handle(x)
    torch.testing.assert_close(p.grad, x)
    hook = p.register_hook(lambda grad: grad * 2)
    handle(x)
    torch.testing.assert_close(p.grad, 2 * x)
    hook.remove()
    p.register_post_accumulate_grad_hook(tripled)
    handle(x)
    torch.testing.assert_close(p.grad, 3 * x)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_second_pass_through_a_result_raises(backend):
    p, x = leaf(4), vec(4)

    def f(x):
        loss = (p * x).sin().sum()
        loss.backward()
        return loss, loss.detach(), loss * 2

    loss, bare, doubled = strict_compile(f, backend=backend)(x)
    assert loss.requires_grad and not loss.is_leaf and loss.grad_fn is not None
    assert doubled.requires_grad and not bare.requires_grad
    assert bare.data_ptr() == loss.data_ptr()
    for result in (loss, doubled):
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            result.backward()


def test_a_second_pass_inside_raises_what_torch_raises():
    p = leaf(4)

    def f(x):
        loss = (p * x).sin().sum()
        loss.backward()
        loss.backward()

    for function in (f, strict_compile(f, backend="eager")):
        p.grad = None
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            function(vec(4))
        torch.testing.assert_close(p.grad, vec(4) * (p * vec(4)).cos())


@pytest.mark.parametrize("message", ["scalar", "does not require grad"])
def test_errors_of_a_pass(message):
    p = leaf(4)

    def f(x):
        (p * x if message == "scalar" else x.sum()).backward()

    for function in (f, strict_compile(f, backend="eager")):
        with pytest.raises(RuntimeError, match=message):
            function(vec(4))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_whole_step_is_one_graph(backend):
    def train(compile):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2))
        optimizer = torch.optim.AdamW(model.parameters(), 0.01)
        average = copy.deepcopy(model).requires_grad_(False)

        def step(x, y):
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            with torch.no_grad():
                for mean, one in zip(average.parameters(), model.parameters(), strict=True):
                    mean.lerp_(one, 0.1)
            return loss

        step = compile(step)
        losses = [step(vec(6, 4) + number, vec(6, 2)) for number in range(5)]
        return losses, [*model.parameters(), *average.parameters()], step

    wanted, got = train(lambda f: f), train(lambda f: strict_compile(f, backend=backend))
    torch.testing.assert_close(got[:2], wanted[:2], rtol=1e-4, atol=1e-5)
    report = got[2].framejit.explain()
    assert not report.breaks and len(report.graphs) <= 2
    assert framejit.config.backend
