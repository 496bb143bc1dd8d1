"""Results of higher-order operators that autograd keeps from being written stay so, and others may
be written as in eager, whichever backend compiles the graph."""

from __future__ import annotations

import framejit
import pytest
import torch
from torch._higher_order_ops.map import map as map_over
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

from ...frontend.semantics.harness import vec

BACKENDS = ("eager", "aot_eager", "native", "autotune", "inductor")


@pytest.fixture(autouse=True)
def _without_code_of_torch_compile():
    """In eager these operators call torch.compile, whose cache is by code object."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def mapped(x):
    return map_over(lambda row: row.sin(), x)


def mapped_to_several(x):
    return map_over(lambda row: (row.tanh(), row * 2), x)


def view_of_mapped(x):
    y = map_over(lambda row: row.exp(), x)
    return y[0], y


def unbound(x):
    return map_over(lambda row: row.exp(), x).unbind()


def mapped_and_used(x):
    y = map_over(lambda row: row.exp(), x)
    return y * 2, y


def looped(x):
    return while_loop(lambda a: a.sum() < 9, lambda a: (a + a.exp(),), (x,))


def looped_with_several(x):
    return while_loop(
        lambda a, b: a.sum() < 9, lambda a, b: (a + b.exp(), b.tanh()), (x, x.sigmoid())
    )


def scanned(x):
    return scan(lambda kept, row: ((kept + row).tanh(), kept * row), torch.zeros(3), x)


def branches(x):
    return torch.cond(x.sum() > 0, lambda a: (a.tanh(), a + 1), lambda a: (a.cos(), a + 2), (x,))


def view_of_branches(x):
    return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))[1]


def write(one):
    one.mul_(2)


def write_detached(one):
    one.detach().mul_(2)


def write_without_grad(one):
    with torch.no_grad():
        one.mul_(2)


FUNCTIONS = [mapped, mapped_to_several, view_of_mapped, unbound, mapped_and_used, looped,
             looped_with_several, scanned, branches, view_of_branches]  # fmt: skip
WRITES = [write, write_detached, write_without_grad]


def outcome(fn, given, position, writes):
    """The results after a write into one of them and the gradient after that; the kinds of errors
    in place of these."""
    results = fn(given)
    results = list(results) if isinstance(results, (tuple, list)) else [results]
    told = []
    try:
        writes(results[position])
    except RuntimeError:
        told.append("no write")
    try:
        sum(one.sum() * (place + 1) for place, one in enumerate(results)).backward()
    except RuntimeError:
        told.append("no gradient")
    return [one.detach() for one in results], given.grad, told


@pytest.mark.filterwarnings("ignore")
@pytest.mark.sweep(6, each=("fn", "backend"))
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("writes", WRITES)
@pytest.mark.parametrize("fn", FUNCTIONS)
def test_writes_from_outside(fn, writes, backend):
    step = framejit.compile(fn, backend=backend)
    first = fn(vec(3, 3, grad=True))
    for position in range(len(first) if isinstance(first, (tuple, list)) else 1):
        expected = outcome(fn, vec(3, 3, grad=True), position, writes)
        found = outcome(step, vec(3, 3, grad=True), position, writes)
        assert found[2] == expected[2]
        torch.testing.assert_close(found[:2], expected[:2])


def test_no_gradients_no_protection():
    step = framejit.compile(mapped, backend="native")
    for x in (vec(3, 3), vec(3, 3, grad=True)):
        with torch.no_grad():
            step(x).mul_(2)
