"""Wrapper subclasses: operators, attributes, constructors, writes and gradients are one graph whose
results have the class; what is guarded of an instance."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.testing._internal.two_tensor import TwoTensor

from ...semantics.harness import strict_compile
from .wrappers import nested_pair, pair, visible

BACKENDS = ("eager", "aot_eager", "native", "autotune")


def pointwise(x, y):
    return x.sin() + 1, 2 * x - y / 3, torch.where(x > 0, x, y), x.abs().clamp(0.1, 0.5)


def products(x, y):
    return x @ y, F.linear(x, y), torch.relu(x).mm(y.t())


def reductions(x, y):
    return x.sum(), x.mean(1, keepdim=True), F.softmax(y, -1), F.layer_norm(x, (4,)), y.amax(0)


def views(x, y):
    z = x * y
    return z.view(-1), z.t(), z[0], z[:, 1:], x.view(-1), x.unbind(), x.detach(), z.reshape(2, 8)


def joined(x, y):
    return torch.cat([x, y]), torch.stack([x, y]).sum(0), torch.split(x, 2)


def inner_tensors(x, y):
    made = x * y
    return made, made.a, made.b.sin(), x.a, x.a is x.a, y.b * 2, x.get_elem_a()


def questions(x, y):
    made = x * y
    return (
        x + 1,
        isinstance(made, TwoTensor),
        type(made) is type(x),
        isinstance(x, torch.nn.Parameter),
        made.shape,
        made.dtype,
        x.requires_grad,
        hasattr(x, "nope"),
        hasattr(made, "a"),
        getattr(made, "nope", 3),
        len(x),
    )


def passed_on(x, y):
    kept = [x, y]
    return kept, x * 2


def rewritten(x, y):
    z = x * 2
    z[0] = 1
    z.mul_(y)
    z += 1
    return z


def mixed(x, y):
    return x + torch.ones(4), torch.ones(4, 4) @ y, x * y.sum()


def without_gradients(x, y):
    with torch.no_grad():
        return x * y, y.sin()


def looped(x, y):
    for factor in range(3):
        x = x * factor + y
    return [part * 2 for part in x]


PROGRAMS = [
    pointwise, products, reductions, views, joined, inner_tensors, questions, passed_on, rewritten,
    mixed, without_gradients, looped,
]  # fmt: skip


def outcome(function, inputs, backward):
    """The results, the gradients and the inputs afterwards."""
    results = function(*inputs)
    ends = [end for end in tensors(results) if end.requires_grad and end.grad_fn is not None]
    if backward and ends:
        sum(end.sin().sum() for end in ends).backward()
    return visible(results), visible([one.grad for one in inputs]), visible(inputs)


def tensors(value):
    if isinstance(value, list | tuple):
        return [tensor for item in value for tensor in tensors(item)]
    return [value] if isinstance(value, torch.Tensor) else []


def assert_same(mine, other, path="result"):
    assert type(mine) is type(other), f"{path}: {mine!r} in eager, {other!r} compiled"
    if isinstance(mine, torch.Tensor):
        torch.testing.assert_close(other, mine, msg=lambda text: f"{path}: {text}")
    elif isinstance(mine, list | tuple):
        assert len(mine) == len(other), path
        for index, pair_ in enumerate(zip(mine, other, strict=True)):
            assert_same(*pair_, f"{path}[{index}]")
    elif isinstance(mine, dict):
        assert list(mine) == list(other), path
        for key in mine:
            assert_same(mine[key], other[key], f"{path}[{key!r}]")
    else:
        assert mine == other, f"{path}: {mine!r} in eager, {other!r} compiled"


def compiled(function, backend="eager"):
    options = {"options": {"patience": 0}} if backend == "autotune" else {}
    return strict_compile(function, backend=backend, **options)


def check(function, make, backend="eager", graphs=1, breaks=0, backward=False):
    """Asserts that compiled code does what eager does, in two calls."""
    wanted = outcome(function, make(), backward)
    handle = compiled(function, backend)
    assert_same(wanted, outcome(handle, make(), backward))
    count = handle.framejit.compiles
    assert_same(wanted, outcome(handle, make(), backward))
    assert handle.framejit.compiles == count, "the second call compiled again"
    report = handle.framejit.explain()
    assert (len(report.graphs), len(report.breaks)) == (graphs, breaks), str(report)
    return handle


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_programs_are_one_graph(program, grad, backend):
    check(program, lambda: (pair(4, 4, grad=grad), pair(4, 4, grad=grad)), backend, backward=grad)


@pytest.mark.parametrize("backend", ("eager", "aot_eager"))
@pytest.mark.parametrize("program", [pointwise, products, inner_tensors], ids=lambda f: f.__name__)
def test_wrappers_of_wrappers(program, backend):
    check(program, lambda: (nested_pair(4, 4), nested_pair(4, 4)), backend)
