"""Results that are views of wrappers: made by eager's operators, not with as_strided."""

from __future__ import annotations

import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._python_dispatch import return_and_correct_aliasing
from torch.utils._pytree import tree_map_only

from ...semantics.harness import vec
from .test_wrapper_subclass import assert_same, check, compiled
from .wrappers import visible

BACKENDS = ("eager", "aot_eager", "native", "autotune")


class Measured(torch.Tensor):
    """A tensor with a unit, which as_strided drops."""

    @staticmethod
    def __new__(cls, number, unit):
        return torch.Tensor._make_wrapper_subclass(
            cls,
            number.shape,
            strides=number.stride(),
            storage_offset=number.storage_offset(),
            dtype=number.dtype,
            requires_grad=number.requires_grad,
        )

    def __init__(self, number, unit):
        self.number, self.unit = number, unit

    def __repr__(self):
        return f"Measured({self.number}, {self.unit})"

    def __tensor_flatten__(self):
        return ["number"], self.unit

    @classmethod
    def __tensor_unflatten__(cls, inner, unit, size, stride):
        return cls(inner["number"], unit)

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        if func is torch.ops.aten.as_strided.default:
            return func(args[0].number, *args[1:])
        unit = next(arg.unit for arg in args if isinstance(arg, cls))
        inner = tree_map_only(cls, lambda arg: arg.number, (args, kwargs or {}))
        made = func(*inner[0], **inner[1])
        result = tree_map_only(torch.Tensor, lambda number: cls(number, unit), made)
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
        return (Measured(vec(4, 4), "m").requires_grad_(grad),)

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
