"""Inputs without a gradient that the graph writes: the backward pass reads them as the forward
pass did."""

from __future__ import annotations

import framejit
import pytest
import torch
from framejit.backends.autograd import min_cut, shared_partition
from framejit.backends.autograd.partitioner import partition

from ...frontend.semantics.harness import check, vec

BACKENDS = ("eager", "aot_eager", "native")


def the_new_content(x, y):
    y.add_(1)
    return x * y


def the_old_content(x, y):
    r = (x + y).sin()
    y.mul_(3)
    return r


def both(x, y):
    r = (x + y).exp().sin()
    y.mul_(x.detach())
    return r + (x * y).cos()


def a_view_of_the_old(x, y):
    r = (x + y.t()).sigmoid().sin()
    y.sub_(1)
    return r


def a_window(x, y):
    r = (x + y[0]).exp().sin()
    y[1] = 2
    return (r * y).sum()


def one_into_the_other(x, y):
    r = (x + y).sin() + x.cos()
    y.copy_(r.detach())
    return r * y


def without_autograd(x, y):
    r = (x - y).sin().exp()
    with torch.no_grad():
        y.lerp_(r, 0.5)
    return r + x * y


ALL = [
    the_new_content,
    the_old_content,
    both,
    a_view_of_the_old,
    a_window,
    one_into_the_other,
    without_autograd,
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", ALL, ids=lambda f: f.__name__)
def test_gradients(f, backend):
    check(f, vec(3, 3, grad=True), vec(3, 3), backend=backend, backward=True)


@pytest.mark.parametrize("backend", BACKENDS)
def test_of_an_input_that_is_a_window(backend):
    def f(x, pair):
        y = pair[1]
        r = (x + y).sin().exp()
        y.add_(1)
        return r * y

    check(f, vec(3, 3, grad=True), vec(2, 3, 3), backend=backend, backward=True)

    def g(x, y):
        r = (x + y).sin().exp()
        y.add_(1)
        return r * y

    x, pair = vec(3, 3, grad=True), vec(3, 3, 2)
    expected = torch.autograd.grad(g(x, pair.clone()[..., 1]).sum(), x)[0]
    (found,) = torch.autograd.grad(framejit.compile(g, backend=backend)(x, pair[..., 1]).sum(), x)
    torch.testing.assert_close(found, expected)


def product(x, y):
    r = x * y
    y.add_(1)
    return r


def matrix_product(x, y):
    r = x.sin() @ y.t()
    y.add_(1)
    return r.cos()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("f", [product, matrix_product], ids=lambda f: f.__name__)
def test_a_write_into_what_the_backward_pass_needs(f, backend):
    result = framejit.compile(f, backend=backend)(vec(3, 3, grad=True), vec(3, 3))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


def scale_by_variance(x, weight, variance):
    return x * (weight / torch.sqrt(variance + 1e-5)).view(1, -1)


def scale_and_return_view(x, weight, variance):  # a graph that aot_autograd traces
    return scale_by_variance(x, weight, variance), x.view(-1)


def scale_by_view_of_variance(x, weight, variance):
    return x * weight * variance.view(1, -1).exp()


@pytest.mark.parametrize("backend", ["native", "aot_eager"])
@pytest.mark.parametrize("f", [scale_by_variance, scale_and_return_view, scale_by_view_of_variance])
def test_a_write_before_the_backward_pass_into_what_eager_does_not_save(f, backend):
    def gradient(run):
        torch.manual_seed(0)
        x, weight = torch.randn(3, 8), torch.randn(8, requires_grad=True)
        variance = torch.rand(8)
        result = run(x, weight, variance)
        result = result[0] if isinstance(result, tuple) else result
        variance.mul_(0.9)
        result.square().sum().backward()
        return weight.grad

    compiled = framejit.compile(f, backend=backend)
    torch.testing.assert_close(gradient(compiled), gradient(f))
    assert compiled.framejit.compiles == 1


def activation(y):
    return y.sigmoid().exp(), None


def activation_and_its_input(y):  # `shifted` is a result that eager does not save
    shifted = y + 1
    return shifted.sigmoid().exp(), shifted


def activation_and_view(y):  # a graph that aot_autograd traces
    shifted = y + 1
    return shifted.sigmoid().exp(), shifted, y.view(-1)


def masked(y, mask):
    return torch.where(mask * 2 > 1, y.sigmoid().exp(), y), None


@pytest.mark.parametrize("backend", ["native", "aot_eager"])
@pytest.mark.parametrize("f", [activation, activation_and_its_input, activation_and_view, masked])
def test_a_write_before_the_backward_pass_into_an_activation(f, backend):
    def gradient(run):
        torch.manual_seed(0)
        x = torch.randn(3, 40, requires_grad=True)
        y, mask = x * 1, torch.randint(0, 2, (3, 40))
        result, shifted, *_ = run(y) if f is not masked else run(y, mask)
        if shifted is None:
            y.mul_(2)
        else:
            shifted.mul_(2)
        mask.zero_()
        result.sum().backward()
        return x.grad

    compiled = framejit.compile(f, backend=backend)
    torch.testing.assert_close(gradient(compiled), gradient(f))
    assert compiled.framejit.compiles == 1


SAVED = {  # what eager saves itself is saved as it is, and so are logits: nothing is copied
    "loss": lambda x: torch.nn.functional.smooth_l1_loss(x, x.sin()),
    "batch norm": lambda x: torch.nn.functional.batch_norm(x, None, None, training=True),
    "sigmoid": lambda x: x.sigmoid(),
    "exp of sigmoid": lambda x: x.sigmoid().exp(),
    "logits": lambda x: torch.nn.functional.log_softmax(x, -1)[:, 0].sum(),
}


@pytest.fixture
def graphs(monkeypatch):
    """The partitions that are made."""
    made = []

    def keep(joint):
        made.append(partition(joint))
        return made[-1]

    monkeypatch.setattr(shared_partition, "partition", keep)
    return made


@pytest.mark.parametrize("name", SAVED)
def test_nothing_is_copied_to_be_saved(name, graphs):
    framejit.compile(SAVED[name], backend="aot_eager")(vec(20, 30, grad=True))
    assert graphs
    copies = [node for one in graphs for node in one.forward.nodes if "clone" in str(node.target)]
    assert not copies


def test_what_a_product_reads_through_a_view_is_saved(graphs, monkeypatch):
    """relu(y) is in memory, as the next layer reads it; that it does so through a view makes no
    difference. On GPUs, large values may be computed again instead of saved."""

    def two_layers(x, first, second, bias):
        return torch.nn.functional.linear(torch.relu(x @ first + bias), second).sin()

    monkeypatch.setattr(min_cut, "FAST_DEVICES", {"cpu"})
    monkeypatch.setattr(min_cut, "LARGE_BYTES", 0)
    first, second = vec(16, 16, grad=True), vec(16, 16, grad=True)
    framejit.compile(two_layers, backend="aot_eager")(vec(4, 8, 16), first, second, vec(16))
    again = [node for one in graphs for node in one.backward.nodes if "relu" in str(node.target)]
    assert graphs and not again
