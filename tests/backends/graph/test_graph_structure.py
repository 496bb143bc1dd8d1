"""Which captured graphs share one compiled function."""

from __future__ import annotations

import framejit
import pytest
import torch
from framejit.backends.graph.graph_structure import structure_of
from torch._subclasses.fake_tensor import FakeTensorMode


def structure(fn, *args):
    found = []

    def keep(gm, examples):
        found.append(structure_of(gm))
        return gm.forward

    framejit.compile(fn, backend=keep)(*args)
    (only,) = found
    return only


def product(x, w):
    return (x @ w).sin() * 2.0


def renamed(left, right):
    y = torch.matmul(left, right) if left is None else left @ right
    return y.sin() * 2.0


def plain():
    return torch.ones(3, 3), torch.ones(3, 3)


def test_names_and_lines_do_not_matter():
    assert structure(product, *plain()) == structure(renamed, *plain()) is not None


@pytest.mark.parametrize(
    "other",
    [
        lambda x, w: (x @ w).cos() * 2.0,
        lambda x, w: (x @ w).sin() * -2.0,
        lambda x, w: (x @ w).sin() * 2,
        lambda x, w: (x @ x).sin() * 2.0,
        lambda x, w: ((x @ w).sin() * 2.0, x @ w),
        lambda x, w: (x @ w).sin_() * 2.0,
        lambda x, w: (x @ w.detach()).sin() * 2.0,
    ],
)
def test_operators_constants_and_wiring_matter(other):
    assert structure(product, *plain()) != structure(other, *plain())


def pair(make):
    return make(torch.ones(3, 3)), torch.ones(3, 3)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.t(),
        lambda x: x.double(),
        lambda x: x.requires_grad_(),
        lambda x: torch.ones(4, 3),
        lambda x: torch.ones(12)[3:].view(3, 3),
        lambda x: torch.ones(1, 3).expand(3, 3),
    ],
)
def test_layouts_dtypes_and_gradients_of_inputs_matter(make):
    def fn(x, w):
        return (w * 2 + x.to(w.dtype).sum()).sin()

    assert structure(fn, *pair(make)) != structure(fn, *plain())


def test_zero_has_a_sign_and_nan_is_nan():
    zeros = [structure(lambda x, by=by: x.add(by).sin(), torch.ones(3)) for by in (0.0, -0.0)]
    nans = [structure(lambda x: x.add(float("nan")).sin(), torch.ones(3)) for _ in range(2)]
    assert zeros[0] != zeros[1] and nans[0] == nans[1]


def sum_of_two(second):
    """A graph of two inputs. second: makes the second one of the first."""
    graph = torch.fx.Graph()
    inputs = [graph.placeholder("x"), graph.placeholder("y")]
    first = FakeTensorMode().from_tensor(torch.ones(3))
    fakes = [first, second(first), first + 1]
    nodes = [*inputs, graph.call_function(torch.add, tuple(inputs))]
    for node, fake in zip(nodes, fakes, strict=True):
        node.meta["example_value"] = fake
    graph.output((nodes[-1],))
    return torch.fx.GraphModule({}, graph)


def test_shared_memory_matters():
    def alone(x):
        return x.clone()

    def view(x):
        return x.view(3)

    found = [structure_of(sum_of_two(second)) for second in (alone, alone, view)]
    assert found[0] == found[1] != found[2]


def test_a_leaf_differs_from_a_result_with_a_history():
    leaf = torch.ones(3, requires_grad=True)
    assert structure(torch.sin, leaf) != structure(torch.sin, leaf * 2)


def test_a_size_that_depends_on_values_is_not_compared():
    assert structure(lambda x: x.nonzero() * 2, torch.ones(3)) is None
