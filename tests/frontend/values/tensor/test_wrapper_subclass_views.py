"""Results that are views of wrappers: made by eager's operators, not with as_strided."""

from __future__ import annotations

import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._python_dispatch import return_and_correct_aliasing

from ...semantics.harness import vec
from .test_wrapper_subclass import assert_same, check, compiled
from .wrappers import Tagged, visible

BACKENDS = ("eager", "aot_eager", "native", "autotune")


class TaggedViews(Tagged):
    """A Tagged whose views alias it, and whose as_strided is a plain tensor."""

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        if func is torch.ops.aten.as_strided.default:
            return func(args[0].inner, *args[1:])
        result = super().__torch_dispatch__(func, types, args, kwargs)
        return return_and_correct_aliasing(func, args, kwargs or {}, result)


def views_of_inputs(x):
    return x.t() * 2, x.view(-1), x[1:].unsqueeze(0)


def views_of_results(x):
    y = x * 2
    return y, y.t(), y[1:]


def one_view(x):
    return x.transpose(0, 1)[1:]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize(
    "program", [views_of_inputs, views_of_results, one_view], ids=lambda f: f.__name__
)
def test_views_are_not_made_with_as_strided(program, grad, backend):
    def make():
        return (TaggedViews(vec(4, 4), 3).requires_grad_(grad),)

    check(program, make, backend, backward=grad)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_view_is_one_of_the_input(backend):
    x = TwoTensor(vec(4, 4), vec(4, 4))
    handle = check(lambda x: (x.t(), x * 2), lambda: (x,), backend)
    view, _ = handle(x)
    view.mul_(3)
    assert view._base is x and torch.equal(view.a.t(), x.a)


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_of_a_view_are_laid_out_like_those_of_eager(backend):
    def gradient(function):
        x = TwoTensor(vec(3, 4), vec(3, 4)).requires_grad_()
        return visible(torch.autograd.grad(function(x).sin().sum(), x))

    assert_same(gradient(one_view), gradient(compiled(one_view, backend)))
