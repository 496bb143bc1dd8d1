"""Hooks on tensors that a frame calculates: one graph, and the hooks see what they see in eager."""

from __future__ import annotations

import functools

import framejit
import pytest
import torch
from torch.utils.hooks import RemovableHandle

from ...semantics.harness import check, strict_compile, vec

BACKENDS = ("eager", "aot_eager", "native", "autotune", "inductor")
seen: list[torch.Tensor] = []


def doubles(grad):
    return grad * 2


def notes(grad):
    seen.append(grad.clone())


def amid(x):
    y = x.sin()
    y.register_hook(doubles)
    return (y * x).sum()


def made_here(x):
    y = x.sin()
    y.register_hook(lambda grad: grad * 3)
    return y.cos()


def several(x, w):
    y = x * w
    before = y.exp()
    y.register_hook(notes)
    y.register_hook(doubles)
    z = (y + before).relu()
    z.register_hook(notes)
    return z * y, before


def of_the_result(x):
    y = x.exp()
    y.register_hook(notes)
    return y


def unused_handle(x):
    y = x.exp()
    handle = y.register_hook(doubles)  # noqa: F841
    return y.sin()


def run(fn, *args):
    """The gradients of a call's results, and what the hooks have seen."""
    seen.clear()
    leaves = [arg.detach().clone().requires_grad_() for arg in args]
    made = fn(*leaves)
    results = made if isinstance(made, tuple) else (made,)
    sum(result.sum() for result in results).backward()
    return [leaf.grad for leaf in leaves], list(seen)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("fn", [amid, made_here, several, of_the_result, unused_handle])
def test_gradients_and_hooks(fn, backend):
    args = (vec(3), vec(3) + 1)[: fn.__code__.co_argcount]
    step = strict_compile(fn, backend=backend)
    for _ in range(3):
        for got, expected in zip(run(step, *args), run(fn, *args), strict=True):
            torch.testing.assert_close(got, expected)
    report = step.framejit.explain()
    assert len(report.graphs) == 1 and not report.breaks and step.framejit.compiles == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_gradient_that_is_kept(backend):
    def fn(x):
        y = x.sin()
        y.retain_grad()
        return y, (y * x).sum()

    step = strict_compile(fn, backend=backend)
    for function in (fn, step, step):
        x = vec(3, grad=True)
        y, loss = function(x)
        loss.backward()
        torch.testing.assert_close(y.grad, x.detach())
        assert y.retains_grad
    assert not step.framejit.explain().breaks


def test_another_hook_compiles_again():
    def fn(x, hook):
        y = x.sin()
        y.register_hook(hook)
        return y.sum()

    step = strict_compile(fn, backend="eager")
    for factor in (2, 3):
        x = vec(3, grad=True)
        step(x, lambda grad, factor=factor: grad * factor).backward()
        torch.testing.assert_close(x.grad, x.detach().cos() * factor)
    assert step.framejit.compiles == 2


def closes_over_a_number(x, w):
    factor = 3.0
    y = x * w
    y.register_hook(lambda grad: grad * factor)
    return y.sin()


def closes_over_a_tensor(x, w):
    y, scale = x * w, w.detach().exp()
    y.register_hook(lambda grad: grad * scale)
    return y.sin() * scale


def has_a_default(x, w):
    y, scale = x * w, w.detach().exp()
    y.register_hook(lambda grad, scale=scale: grad * scale)
    return y.sin()


def closes_over_what_changes_later(x, w):
    y, scale = x * w, w.detach()
    y.register_hook(lambda grad: grad * scale)
    scale = scale + 5
    return y.sin()


def fills_a_list(x, w):
    found = []
    y = x * w
    y.register_hook(found.append)
    return y.sin(), found


def fills_a_dictionary(x, w):
    grads = {}

    def keep(name):
        def hook(grad):
            grads[name] = grad

        return hook

    y = x * w
    y.register_hook(keep("y"))
    z = y.sin()
    z.register_hook(keep("z"))
    z.register_hook(lambda grad: grad * 2)
    z.register_hook(keep("z after"))
    return z * y, grads


def before_a_write(x, w):
    y, factor = x * w, 3.0
    y.register_hook(lambda grad: grad * factor)
    y.mul_(2)
    return y * 4


def of_an_argument(x, w):
    factor = 3.0
    x.register_hook(lambda grad: grad * factor)
    w.register_hook(doubles)
    return x.sin() * w


def of_a_partial(x, w):
    y = x * w
    y.register_hook(functools.partial(torch.mul, w.detach()))
    return y.sin()


def removes(x, w):
    y = x * w
    handle = y.register_hook(doubles)
    kept = y.register_hook(lambda grad: grad + w.detach())  # noqa: F841
    z = y.sin()
    handle.remove()
    return z


def returns_the_handle(x, w):
    y = x * w
    return y.sin(), y.register_hook(doubles)


def around_a_break(x, w):
    y, factor = x * w, 3.0
    handle = y.register_hook(lambda grad: grad * factor)
    print(end="")
    factor = 4.0
    z = y.sin()
    handle.remove()
    y.register_hook(lambda grad: grad / factor)
    return z


CLOSURES = {
    closes_over_a_number: 0, closes_over_a_tensor: 0, has_a_default: 0,
    closes_over_what_changes_later: 0, fills_a_list: 0, fills_a_dictionary: 0, before_a_write: 0,
    of_an_argument: 0, of_a_partial: 0, removes: 1, returns_the_handle: 0, around_a_break: 2,
}  # fmt: skip


def gradients(fn, calls=1, non_leaf=False):
    """The gradients of calls of a function, and what hooks have kept; the sums of several calls of
    the same leaves."""
    leaves = [vec(3, grad=True), (vec(3) + 1).requires_grad_()]
    found = []
    for _ in range(calls):
        args = [leaf * 2 for leaf in leaves] if non_leaf else leaves
        made = fn(*args)
        result, kept = made if isinstance(made, tuple) else (made, None)
        result.sum().backward()
        if isinstance(kept, RemovableHandle):
            kept.remove()
            kept = None
        found.append((kept, result.detach(), [leaf.grad.clone() for leaf in leaves]))
    return found


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("non_leaf", [False, True])
@pytest.mark.parametrize("fn", CLOSURES)
def test_hooks_that_close_over_values(fn, non_leaf, backend):
    step = strict_compile(fn, backend=backend)
    for calls in (1, 3):
        expected = gradients(fn, calls, non_leaf)
        torch.testing.assert_close(gradients(step, calls, non_leaf), expected)
    assert len(step.framejit.explain().breaks) == CLOSURES[fn]


def test_a_graph_that_raises_registers_no_hook():
    def fn(x, i):
        factor = 3.0
        x.register_hook(lambda grad: grad * factor)
        return x[i].sin()

    step = strict_compile(fn, backend="eager")
    good, bad = torch.tensor([0, 1]), torch.tensor([0, 9])
    x = vec(3, grad=True)
    step(x, good).sum().backward()
    y = vec(3, grad=True)
    for function, leaf in ((step, x), (fn, y)):
        with pytest.raises(IndexError):
            function(leaf, bad)
        leaf.grad = None
        leaf.sum().backward()
    assert x.grad.tolist() == [9, 9, 9] and y.grad.tolist() == [3, 3, 3]
    for leaf, function in ((x, step), (y, fn)):
        leaf.grad = None
        function(leaf, good).sum().backward()
    assert torch.equal(x.grad, y.grad * 3)  # x has one hook more, of the first call


def differentiates(x):
    y = x.exp()
    y.register_hook(doubles)
    return torch.autograd.grad(y.sum(), x)[0]


def of_a_class(x):
    y = x.exp()
    y.register_hook(torch.nn.ReLU())
    return y.sin()


@pytest.mark.parametrize("fn", [differentiates, of_a_class])
def test_others_are_left_to_python(fn):
    step = framejit.compile(fn, backend="eager")
    for _ in range(2):
        x, y = vec(3, grad=True), vec(3, grad=True)
        made, expected = step(x), fn(y)
        made, expected = (one[0] if isinstance(one, tuple) else one for one in (made, expected))
        torch.testing.assert_close(made, expected)
        if expected.requires_grad:
            made.sum().backward()
            expected.sum().backward()
            torch.testing.assert_close(x.grad, y.grad)
    assert step.framejit.explain().breaks


def test_a_tensor_without_gradient_raises_as_in_eager():
    check(amid, vec(3), breaks=None, graphs=None, skipped=True, again=False)
