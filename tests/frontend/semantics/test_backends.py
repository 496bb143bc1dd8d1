"""The same programs through aot_eager: values, mutations, aliases and gradients stay eager's."""

from __future__ import annotations

import weakref

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from .harness import check, strict_compile, vec

BACKENDS = ["eager", "aot_eager"]


def arithmetic(x, w):
    y = x @ w
    return (y.sin() * 2 + w.sum(), y)


def views(x, w):
    y = x + w
    return y, y.view(-1), y.t(), y[0]


def views_of_inputs(x, w):
    return x.t(), x.view(-1), w * 2


def in_place_on_input(x, w):
    w2 = w.detach()
    w2.add_(1)
    return x * w2


def in_place_on_intermediate(x, w):
    y = x * 2
    y[0] = 0
    y.add_(w)
    return y


def input_returned(x, w):
    return x, x + 1, w


def no_grad_block(x, w):
    with torch.no_grad():
        scale = (x * w).sum()
    return x * scale + w


def break_inside(x, w):
    y = x * w
    print("break")
    z = y.cos()
    return z + y, z


def break_in_no_grad(x, w):
    with torch.no_grad():
        s = (x * w).sum()
        print("break")
        t = s * 2
    return x * t + w


def loop(x, w):
    for i in range(3):
        x = torch.tanh(x @ w + i)
    return x


def dropout(x, w):
    return F.dropout(x @ w, 0.5)


def softmax_and_norms(x, w):
    return F.layer_norm(x, (2,), w[0], w[1]).softmax(-1)


def containers(x, w):
    return {"a": x + w, "b": [x * w, (w, 3)]}


def data_dependent(x, w):
    if (x.sum() > 0).item():
        return x * w
    return x - w


def detached(x, w):
    return (x * w).detach() + w


def exception_inside(x, w):
    try:
        raise ValueError
    except ValueError:
        return x @ w


def closure(x, w):
    def inner(k):
        return x * k + w

    return inner(2) + inner(3)


PROGRAMS = [
    arithmetic, views, views_of_inputs, in_place_on_input, in_place_on_intermediate, input_returned, no_grad_block, break_inside, break_in_no_grad, loop,
    dropout, softmax_and_norms, containers, data_dependent, detached, exception_inside, closure,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
@pytest.mark.parametrize("backend", BACKENDS)
def test_program(program, backend):
    check(
        program,
        vec(2, 2, grad=True),
        vec(2, 2, grad=True),
        graphs=None,
        breaks=None,
        backend=backend,
        backward=True,
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_without_gradients(backend):
    def f(x, y, items):
        x.add_(1)
        items.append(x.t())
        y[0] = x[1]
        return x, y.sum(), x.view(-1)

    check(f, vec(2, 2), vec(2, 2), [], backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_module_training(backend):
    def f(m, x):
        return m(x)

    torch.manual_seed(0)
    m = nn.Sequential(
        nn.Linear(2, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Dropout(0.3), nn.Linear(4, 1)
    )
    check(f, m, vec(6, 2), backend=backend, backward=True)
    check(f, m.eval(), vec(6, 2), backend=backend, backward=True)


@pytest.mark.parametrize("backend", BACKENDS)
def test_run_time_error(backend):
    def f(w, i, log):
        log.append(1)
        return F.embedding(i, w) * 2

    check(f, vec(2, 2), torch.tensor([5]), [], backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_backward_twice_and_retained(backend):
    def f(x):
        return (x * x).sum()

    g, x = strict_compile(f, backend=backend), vec(3, grad=True)
    y = g(x)
    y.backward(retain_graph=True)
    y.backward()
    assert torch.allclose(x.grad, 4 * x.detach())


@pytest.mark.parametrize("backend", BACKENDS)
def test_grad_mode_switches(backend):
    def f(x):
        return x * 2

    g, x = strict_compile(f, backend=backend), vec(3, grad=True)
    with torch.no_grad():
        assert not g(x).requires_grad
    assert g(x).requires_grad
    with torch.inference_mode():
        assert g(x).is_inference()
    assert g(x.detach()).requires_grad is False


def two_losses(x, w):
    return (x * 2).sum(), (x * w).sum(), w.sin().t()


def writes_statistics(x, w):
    seen = torch.zeros(2)
    y = F.batch_norm(x * w, seen, torch.ones(2), training=True)
    return (y**3).sum(), w * 2, seen


@pytest.mark.parametrize(
    "program", [two_losses, writes_statistics, views_of_inputs, in_place_on_input]
)
@pytest.mark.parametrize("backend", BACKENDS)
def test_what_no_gradient_reaches_stays_none(program, backend):
    handle = strict_compile(program, backend=backend)
    for _ in range(2):
        for output in range(len(program(vec(2, 2, grad=True), vec(2, 2, grad=True)))):
            grads = []
            for callee in (program, handle):
                x, w = vec(2, 2, grad=True), vec(2, 2, grad=True)
                result = callee(x, w)
                if isinstance(result, torch.Tensor):
                    result = (result,)
                if output < len(result) and result[output].requires_grad:
                    result[output].sum().backward()
                grads.append((x.grad, w.grad))
            for mine, yours in zip(*grads, strict=True):
                assert (mine is None) == (yours is None), (output, mine, yours)
                assert mine is None or torch.allclose(mine, yours)


def smooth(x, w):
    return (x.sin() * w).sum(), (x @ w).tanh()


def with_dropout(x, w):
    return F.dropout(x.exp() * w, 0.5).pow(3).sum(), x


def make_norm():
    norm = nn.BatchNorm1d(3)

    def normalised(x, w):
        return norm(torch.stack([x.exp(), x.sin() * w, w**2], 1)).pow(3) * w.sum(), *norm.buffers()

    return normalised


@pytest.mark.parametrize("make", [lambda: smooth, lambda: with_dropout, make_norm])
@pytest.mark.parametrize("backend", BACKENDS)
def test_double_backward(make, backend):
    def second(callee):
        torch.manual_seed(0)
        leaf, w = vec(2, 2, grad=True), vec(2, 2, grad=True)
        result = callee(leaf * 2, w)
        grads = torch.autograd.grad(result[0].sum(), [leaf, w], create_graph=True)
        return [
            *grads,
            *torch.autograd.grad(sum(g.pow(2).sum() for g in grads), [leaf, w]),
            *result,
            torch.get_rng_state(),
        ]

    program, handle = make(), strict_compile(make(), backend=backend)
    for _ in range(2):
        for mine, yours in zip(second(program), second(handle), strict=True):
            torch.testing.assert_close(yours, mine)


def test_the_backward_pass_frees_what_it_kept():
    def f(x, w):
        return (x * w).sin()

    handle = strict_compile(f, backend="aot_eager")
    handle(vec(2, 2) + 1, vec(2, 2, grad=True))  # the capture keeps its own arguments for a while
    x = vec(2, 2) + 1
    gone = weakref.ref(x)
    y = handle(x, vec(2, 2, grad=True))
    del x
    y.sum().backward()
    assert gone() is None


INTO_PLAIN = {
    "add": lambda out, x, at: out.add_(x.sin().cos()),
    "not returned": lambda out, x, at: (out.add_(x.sin().cos()), None)[1],
    "index_add": lambda out, x, at: out.index_add_(0, at, x.sin().cos()),
    "item": lambda out, x, at: out.__setitem__(at, x.sin().cos()),
    "copy": lambda out, x, at: out.copy_(x.sin().cos()),
    "old content is kept": lambda out, x, at: out.mul_(x.sin()),
    "and a result": lambda out, x, at: (out.mul_(x.sin()), x.cos() * 2)[1],
    "a view": lambda out, x, at: out[1].mul_(x.sin()[0]),
}  # fmt: skip


@pytest.mark.parametrize("backend", [*BACKENDS, "native"])
@pytest.mark.parametrize("program", INTO_PLAIN.values(), ids=INTO_PLAIN)
def test_a_tensor_without_gradients_that_gets_some(program, backend):
    found = []
    for call in (program, strict_compile(program, backend=backend)):
        out, x = vec(3, 2) + 1, vec(3, 2, grad=True)
        call(out, x, torch.tensor([2, 0, 1]))
        out.square().sum().backward()
        found.append((out, x.grad))
    torch.testing.assert_close(*found)


UNREAD = {
    "alone": lambda x, out: (torch.rand(2), x.sin() * 2)[1],
    "dropout": lambda x, out: (F.dropout(x), x.sin() * 2)[1],
    "in place": lambda x, out: (torch.empty(3).normal_(), x.sin() * 2)[1],
    "beside a write": lambda x, out: (torch.rand(2), out.add_(x), x.sin() * 2)[2],
}


@pytest.mark.parametrize("backend", [*BACKENDS, "native"])
@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("program", UNREAD.values(), ids=UNREAD)
def test_numbers_that_nobody_reads_are_drawn(program, grad, backend):
    check(program, vec(3, grad=grad), vec(3), backend=backend, backward=grad)


@pytest.mark.parametrize("backend", [*BACKENDS, "native"])
def test_a_loss_detached_behind_its_backward_pass(backend):
    lin = nn.Linear(2, 2)

    def f(x):
        loss = lin(x).sum()
        loss.backward()
        return loss.detach(), x.detach()

    x = vec(3, 2)
    loss, same = strict_compile(f, backend=backend)(x)
    assert not loss.requires_grad and loss.grad_fn is None
    assert same is not x and same.data_ptr() == x.data_ptr()


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("backend", [*BACKENDS, "native"])
def test_a_view_of_a_result_in_its_own_shape_is_a_tensor_of_its_own(backend, grad):
    def f(x):
        y = x * 2
        return y.view(-1).view(2, 3), y, y.detach()

    check(f, vec(2, 3, grad=grad), backend=backend, backward=grad)
    view, y, detached = strict_compile(f, backend=backend)(vec(2, 3, grad=grad))
    assert (
        view is not y
        and view is not detached
        and view.data_ptr() == y.data_ptr() == detached.data_ptr()
    )
    assert detached.requires_grad is False and view.requires_grad is y.requires_grad is grad


@pytest.mark.parametrize("backend", [*BACKENDS, "native"])
def test_a_backward_pass_whose_values_are_written_over_raises_when_it_runs(backend):
    def f(x):
        y = x.clone()
        y[:, 1:] *= y[:, 1:]
        return y

    x = vec(2, 3, grad=True)
    result = strict_compile(f, backend=backend)(x)
    assert torch.equal(result, f(x))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


@pytest.mark.parametrize("backend", [*BACKENDS, "native"])
def test_a_view_of_which_no_history_is_kept(backend):
    def f(x):
        with torch.no_grad():
            y = x.float().t().t()
        return y, x * 2

    x = vec(2, 3, grad=True)
    (mine, _), (view, _) = f(x), strict_compile(f, backend=backend)(x)
    assert (view.is_leaf, view.requires_grad, view.grad_fn) == (
        mine.is_leaf,
        mine.requires_grad,
        mine.grad_fn,
    )


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("backend", [*BACKENDS, "native"])
def test_writes_into_elements_that_share_memory(backend, grad):
    def f(x, out):
        y = (x * 2).sum(0, keepdim=True).expand(2, 3)
        y[0] = x[1]
        z = out.expand(2, 3)
        z[1] = x.detach()[0]
        return y * 1, z * 1

    check(f, vec(2, 3, grad=grad), vec(1, 3), backend=backend, backward=grad)
