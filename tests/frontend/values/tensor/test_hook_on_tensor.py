"""Hooks on tensors that a frame calculates: one graph, and the hooks see what they see in eager."""

from __future__ import annotations

import framejit
import pytest
import torch

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


def removes(x):
    y = x.exp()
    handle = y.register_hook(doubles)
    z = y.sin()
    handle.remove()
    return z


def returns_the_handle(x):
    y = x.exp()
    return y.sin(), y.register_hook(doubles)


def of_an_argument(x):
    x.register_hook(doubles)
    return x.sin()


def closes_over(x):
    found = []
    y = x.exp()
    y.register_hook(found.append)
    return y.sin(), found


def differentiates(x):
    y = x.exp()
    y.register_hook(doubles)
    return torch.autograd.grad(y.sum(), x)[0]


@pytest.mark.parametrize(
    "fn", [removes, returns_the_handle, of_an_argument, closes_over, differentiates]
)
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
