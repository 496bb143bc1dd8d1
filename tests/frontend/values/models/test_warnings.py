"""Under `python -W error` framejit reads the program's state without a warning, and its own reports
do not raise."""

from __future__ import annotations

import warnings

import framejit
import pytest
import torch
from framejit.errors import FramejitWarning, warn_user
from torch import nn

from ...semantics.harness import strict_compile

weight = torch.randn(3, requires_grad=True)


class Holder:
    pass


def with_a_break(y):
    z = y * 2
    framejit.graph_break()
    return z + y


def through_an_object(y):
    holder = Holder()
    holder.value, holder.values = y, [y]
    framejit.graph_break()
    return holder.value + holder.values[0]


def of_a_module(y):
    hidden = layers(y)
    framejit.graph_break()
    return (hidden * y).sum(), hidden


def changed_size(y):
    return torch.cat([y, y]).sin()


def that_keeps_its_gradient(y):
    z = y * 2
    z.retain_grad()
    framejit.graph_break()
    w = z.relu()
    w.retain_grad()
    return w + z


def that_came_with_its_gradient(y):
    y.retain_grad()
    y.grad = None
    (y * 2).sum().backward(retain_graph=True)
    framejit.graph_break()
    return y * y.grad


layers = nn.Sequential(nn.Linear(3, 3), nn.ReLU())


@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager"])
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("program", [
    with_a_break, through_an_object, of_a_module, changed_size, that_keeps_its_gradient, that_came_with_its_gradient,
])  # fmt: skip
def test_tensors_that_are_no_leaves(program, dynamic, backend):
    handle = strict_compile(program, backend=backend, dynamic=dynamic)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for rows in (2, 4, 5):
            y = torch.ones(rows, 3) * weight
            torch.testing.assert_close(handle(y), program(y))


def asks_for_the_gradient(y):
    return (y * 2, y.grad)


@pytest.mark.parametrize("action", ["error", "always"])
def test_a_program_that_asks_for_the_gradient_of_no_leaf_is_warned_as_in_eager(action):
    handle = strict_compile(asks_for_the_gradient)
    handle(weight)
    for call in (asks_for_the_gradient, handle, handle):
        y = weight * 1
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter(action)
            if action == "error":
                with pytest.raises(UserWarning, match="not a leaf"):
                    call(y)
            else:
                assert call(y)[1] is None
        assert len(caught) == (action == "always")


def broken(graph, inputs):
    raise RuntimeError("no such kernel")


def test_the_report_of_a_failure_does_not_raise(capfd):
    with framejit.config.patch(strict=False, suppress_errors=True), warnings.catch_warnings():
        warnings.simplefilter("error")
        handle = framejit.compile(lambda x: x + 1, backend=broken)
        assert handle(torch.ones(2)).equal(torch.full((2,), 2.0))
    assert "no such kernel" in capfd.readouterr().err


@pytest.mark.parametrize("category", [FramejitWarning, None, UserWarning, Warning])
def test_a_filter_on_the_category_of_its_own_raises(category, capfd):
    with warnings.catch_warnings():
        warnings.resetwarnings()
        if category is not None:
            warnings.simplefilter("error", category)
        if category is FramejitWarning:
            with pytest.raises(FramejitWarning, match="framejit: something"):
                warn_user("something")
            return
        if category is None:
            with pytest.warns(FramejitWarning, match="framejit: something"):
                warn_user("something")
            return
        warn_user("something")
    assert "framejit: something" in capfd.readouterr().err


def test_its_category_is_one_that_programs_filter():
    assert issubclass(FramejitWarning, UserWarning) and issubclass(FramejitWarning, RuntimeWarning)
