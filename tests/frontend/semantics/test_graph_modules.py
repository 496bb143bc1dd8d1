"""torch.fx.GraphModule inside compiled code: what its generated forward does is captured, and a
failure is told as in eager."""

from __future__ import annotations

import operator

import pytest
import torch
import torch.fx
from torch import nn

from .harness import check, strict_compile, vec


class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("scale", torch.full((4,), 2.0))

    def forward(self, x):
        return torch.relu(self.norm(self.linear(x))) * self.scale


class Noisy(nn.Module):
    def forward(self, x):
        y = x + 1
        print("noise")
        return y * 2


class WithLeaf(nn.Module):
    def __init__(self):
        super().__init__()
        self.noisy = Noisy()

    def forward(self, x):
        return self.noisy(x * 2) + 3


class KeepsNoisy(torch.fx.Tracer):
    def is_leaf_module(self, module, name):
        return isinstance(module, Noisy) or super().is_leaf_module(module, name)


class Square(nn.Module):
    def forward(self, x):
        return x @ x


class Three(nn.Module):
    def forward(self, x):
        torch._assert(x.shape[0] == 3, "not three")
        return x + 1


class Tripled(torch.fx.GraphModule):
    def __call__(self, *args):
        return super().__call__(*args) * 3


def exported():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return torch.export.export(Square(), (vec(3, 3),)).module(check_guards=False)


with torch.random.fork_rng():
    torch.manual_seed(0)
    TRACED, OTHER = torch.fx.symbolic_trace(Part()).eval(), torch.fx.symbolic_trace(nn.Linear(4, 4))
LEAF = WithLeaf()
LEAF = torch.fx.GraphModule(LEAF, KeepsNoisy().trace(LEAF))
SQUARE, THREE = torch.fx.symbolic_trace(Square()), torch.fx.symbolic_trace(Three())
TRIPLED = Tripled(nn.Linear(4, 4), torch.fx.Tracer().trace(nn.Linear(4, 4)))
EXPORTED = exported()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = torch.fx.symbolic_trace(Part())
        self.out = nn.Linear(4, 2)

    def forward(self, x):
        return self.out(self.part(x)).sin()


def test_a_traced_part_is_captured_with_the_rest():
    def f(x):
        return TRACED(x).sin() + OTHER(x)

    check(f, vec(3, 4, grad=True), fullgraph=True, backward=True)


def test_a_traced_part_that_counts_its_batches():
    def f(m, x):
        return m(x), m(x)

    check(
        f, Model(), (vec(3, 4) * 7).sin(), again=False, backward=True
    )  # a copy of a GraphModule is of a class of its own


def test_a_class_of_graph_modules_with_a_call_of_its_own():
    def f(x):
        return TRIPLED(x) - 1

    check(f, vec(2, 4), fullgraph=True)


def test_a_module_that_torch_exported():
    def f(x):
        return EXPORTED(x) * 2

    check(f, vec(3, 3), fullgraph=True)


def test_a_break_in_a_leaf_leaves_the_generated_code_to_python():
    def f(x):
        return LEAF(x + 1).sin() + 1  # the leaf is captured by itself, with a break of its own

    check(f, vec(2, 4), graphs=4, breaks=("output", "output"))


def test_an_edited_graph_is_seen_once_it_is_recompiled():
    module = torch.fx.symbolic_trace(lambda x: torch.relu(x) - 1)
    compiled = strict_compile(lambda x: module(x) * 2)
    x = vec(5) - 0.5
    assert torch.equal(compiled(x), (x.relu() - 1) * 2)
    for node in module.graph.nodes:
        if node.target is operator.sub:
            node.target = operator.add
    assert torch.equal(compiled(x), (x.relu() - 1) * 2)
    module.recompile()
    assert torch.equal(compiled(x), (x.relu() + 1) * 2)
    module.register_forward_hook(lambda module, args, out: out + 5)
    assert torch.equal(compiled(x), (x.relu() + 6) * 2)


def raises_outside(x):
    return THREE(x)


def raises_and_catches(x):
    try:
        return THREE(x).sin()
    except AssertionError as error:
        return x.cos(), str(error)


def raises_in_an_operation(x):
    return SQUARE(x + 1).sin()


def gives_too_much(x):
    return SQUARE(x, 2)


@pytest.mark.parametrize(
    "fn",
    [raises_outside, raises_and_catches, raises_in_an_operation, gives_too_much],
    ids=lambda fn: fn.__name__,
)
def test_a_failure_raises_as_in_eager(fn, capfd):
    def told(run):
        with (
            pytest.raises((AssertionError, RuntimeError, TypeError))
            if fn is not raises_and_catches
            else pytest.MonkeyPatch.context()
        ):
            run(vec(2, 4))
        return capfd.readouterr().err

    expected = told(fn)
    assert (fn is raises_in_an_operation) == bool(
        expected
    )  # torch tells of what fails in the generated code itself
    assert told(strict_compile(fn)) == expected
    check(fn, vec(2, 4), graphs=None, breaks=None)


def test_what_is_right_of_a_check_is_captured():
    check(raises_outside, vec(3, 4), fullgraph=True)
