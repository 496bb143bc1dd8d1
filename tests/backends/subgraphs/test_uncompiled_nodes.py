"""Calls of higher-order operators: which parts of such a graph, and of the functions that they
call, backends get."""

from __future__ import annotations

import copy

import framejit
import pytest
import torch
from framejit.backends.graph.higher_order_call import HigherOrderCall
from framejit.backends.native import backend as native
from framejit.backends.registry import Backend
from framejit.backends.subgraphs.uncompiled_nodes import compile_around
from framejit.errors import RequirementError
from framejit.events import UNREPORTED
from torch._higher_order_ops.scan import scan

from ...frontend.semantics.harness import check, vec


def captured(fn, *args):
    """The graph of a function as captured, before a backend gets it."""
    graphs = []

    def keep(gm, examples):
        graphs.append(gm)
        return gm.forward

    handle = framejit.compile(fn, backend=keep)
    handle(*args)
    return graphs


def between(x):
    y = torch.cond(x.sum() > 0, lambda a: a.sin(), lambda a: a.cos(), (x + 1,))
    return y * 2 + x


def counts(gm):
    return sum(isinstance(node.target, HigherOrderCall) for node in gm.graph.nodes)


def test_a_backend_gets_the_graphs_between_and_those_of_the_functions():
    graphs = captured(between, torch.ones(3))
    assert len(graphs) == 4 and not any(map(counts, graphs))


@pytest.mark.parametrize("fails", [False, True])
def test_a_backend_that_takes_them_gets_the_whole_graph_first(fails):
    seen = []

    def build(gm, examples):
        seen.append(counts(gm))
        if fails and counts(gm):
            raise ValueError("no rule for this")
        return gm.forward

    run_graph(build)
    assert seen == ([1, 0, 0, 0, 0] if fails else [1])


def test_what_the_user_requires_is_not_worked_round():
    def build(gm, examples):
        raise RequirementError("cannot")

    with pytest.raises(RequirementError):
        run_graph(build)


def run_graph(build):
    """Compiles the graph of `between` with a backend that takes higher-order operators."""
    backend = Backend("whole", build, higher_order=True)
    x = torch.ones(3)

    def keep(gm, examples):
        compiled = compile_around(gm, examples, backend, build, UNREPORTED)
        torch.testing.assert_close(compiled(x)[0], between(x))
        return gm.forward

    framejit.register_backend("keeps_whole_graphs", keep, higher_order=True)
    try:
        with framejit.config.patch(strict=True, suppress_errors=False):
            framejit.compile(between, backend="keeps_whole_graphs")(x)
    except framejit.BackendError as error:
        raise error.__cause__ from None
    finally:
        framejit.backends.registry._backends.pop("keeps_whole_graphs")


def halve(gradient):
    return gradient * 0.5


class Blocks(torch.nn.Module):
    """Equal blocks with something between them that no backend compiles."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(6))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).sin() * 2 + x
            x = torch.cond(x.sum() > 1e9, torch.neg, torch.sin, (x,))
            if x.requires_grad:
                x.register_hook(halve)
        return x


@pytest.mark.parametrize("trains", [False, True])
def test_equal_blocks_between_are_compiled_once(trains, monkeypatch):
    lowered, real = [], native.lower
    monkeypatch.setattr(native, "lower", lambda *given: lowered.append(1) or real(*given))
    eager = Blocks()
    compiled = framejit.compile(copy.deepcopy(eager), backend="native")
    for _ in range(2):
        x = torch.randn(3, 4, requires_grad=trains)
        with torch.set_grad_enabled(trains):
            results = eager(x), compiled(x)
        torch.testing.assert_close(*results)
        if trains:
            eager.zero_grad(), compiled.zero_grad()
            for result in results:
                result.square().sum().backward()
            for one, other in zip(eager.parameters(), compiled.parameters(), strict=True):
                torch.testing.assert_close(one.grad, other.grad)
    blocks = 2 if trains else 1  # the first block's input is a leaf
    branches = 2
    assert len(lowered) == (blocks + branches) * (2 if trains else 1)


def writes_the_result(x, b):
    y, z = torch.cond(x.sum() > 0, lambda a: (a.sin(), a * b), lambda a: (a.cos(), a - b), (x,))
    y.mul_(2)
    return y + z


def writes_the_result_through_a_view(x, b):
    y = torch.cond(x.sum() > 0, lambda a: a * b, lambda a: a - b, (x,))
    y[1:].mul_(x[1:])
    return y


def writes_an_operand(x, b):
    y = torch.cond(x.sum() > 0, lambda a: a + b, lambda a: a - b, (x,))
    b.add_(1)  # cond saves all operands, and so refuses a backward pass
    return y


def writes_an_operand_of_scan(x, b):
    last, every = scan(lambda c, a: (c + a * b[0], c * 2), x[0] * 0, x)
    b.add_(1)  # scan has copied what it saves
    return last + every


def step(call):
    """The result and the gradient, or the error."""
    x, b = torch.tensor([1.0, 2.0, 3.0], requires_grad=True), torch.full((3,), 2.0)
    result = call(x, b)
    try:
        result.sum().backward()
    except RuntimeError as error:
        return str(error).partition(":")[0]
    return result.tolist(), x.grad.tolist(), b.tolist()


@pytest.mark.parametrize("backend", ["native", "aot_eager"])
@pytest.mark.parametrize(
    "program",
    [
        writes_the_result,
        writes_the_result_through_a_view,
        writes_an_operand,
        writes_an_operand_of_scan,
    ],
)
def test_writes_around_control_flow_have_eagers_gradients(program, backend):
    mine, wanted = step(framejit.compile(program, backend=backend)), step(program)
    if isinstance(wanted, str):
        assert mine == wanted
    else:
        torch.testing.assert_close(mine, wanted)


def test_a_function_under_vmap_beside_a_cond_with_gradients():
    def fn(x):
        y = torch.vmap(lambda row: row.new_zeros(3).add_(row).sin())(x)
        return torch.cond(x.sum() > 0, torch.exp, torch.cos, (y,)) * y

    check(fn, vec(2, 3, grad=True), backend="native", backward=True)
