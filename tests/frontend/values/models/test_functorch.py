"""torch.func transforms: errors in the transformed function are the program's own."""

from __future__ import annotations

import pytest
import torch
from torch.func import grad, jvp, vmap

from ...semantics.harness import check, vec


def raises(t):
    raise ValueError("refused")


def no_attribute(x):
    return vmap(lambda t: t.no_such)(torch.stack([x, -x]))


def leaves_grad(x):
    return grad(raises)(x)


def leaves_jvp(x):
    return jvp(raises, (x,), (x,))


def leaves_two_levels(x):
    return vmap(vmap(lambda t: [t][2]))(x[None])


def leaves_with_a_mode(x):
    with torch.no_grad():
        return vmap(lambda t: {}["a"])(x)


def behind_a_break(x):
    y = x.sin()
    print("here")
    return grad(raises)(y)


def caught_outside(x):
    try:
        return vmap(grad(raises))(x.sin())
    except ValueError as error:
        return x + 1, str(error), error.args


def caught_inside(x):
    def f(t):
        try:
            return raises(t)
        except ValueError:
            return t.sin().sum()

    return grad(f)(x)


LEAVING = [no_attribute, leaves_grad, leaves_jvp, leaves_two_levels, leaves_with_a_mode]
CAUGHT = [caught_outside, caught_inside]


@pytest.mark.parametrize("function", [*LEAVING, behind_a_break])
def test_an_error_in_a_transformed_function_leaves_the_frame(function):
    check(function, vec(3), graphs=None, breaks=None)


@pytest.mark.parametrize("function", CAUGHT)
def test_an_error_in_a_transformed_function_is_caught(function):
    check(function, vec(3), graphs=1)
