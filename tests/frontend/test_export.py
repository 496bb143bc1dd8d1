"""framejit.export: one graph, what it takes, and what a function must not do."""

from __future__ import annotations

import collections
import copy

import framejit
import pytest
import torch

from .semantics.harness import Comparison, vec

Pair = collections.namedtuple("Pair", "first second")
linear = torch.nn.Linear(3, 4)
scale = torch.tensor(2.0)


def scaled(x, n=2):
    return x * n * scale


def tree(x, d, n):
    return {"a": [x * n], "b": (d["k"] + 1, n, None, "text")}


def named(x):
    return Pair(x + 1, x)


def writes(x):
    x += 1
    return x.sin()


def chooses(x):
    return torch.cond(x.sum() > 0, lambda a: a.sin(), lambda a: a.cos(), (x,))


def only_literals(x):
    return x.shape[0], "text"


CALLS = {
    "a function": (scaled, (vec(3),), {"n": 3}),
    "a module": (linear, (vec(2, 3),), {}),
    "a method": (linear.forward, (vec(2, 3),), {}),
    "a tree": (tree, (vec(2), {"k": vec(3)}, 4), {}),
    "a named tuple": (named, (vec(2),), {}),
    "a write into an argument": (writes, (vec(2),), {}),
    "a higher-order operator": (chooses, (vec(2),), {}),
    "no tensors": (only_literals, (vec(2),), {}),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_graph_does_what_the_function_does(name):
    fn, args, kwargs = CALLS[name]
    before = copy.deepcopy(args)
    exported = framejit.export(fn, *args, **kwargs)
    Comparison().same(before, args, "arguments")  # it was not run
    mine, yours = copy.deepcopy(args), copy.deepcopy(args)
    expected, made = fn(*mine, **kwargs), exported(*yours, **kwargs)
    Comparison().same((expected, mine), (made, yours), "results and arguments")


def test_inputs_are_described():
    exported = framejit.export(linear, vec(2, 3))
    described = [(spec.path, spec.shape, spec.requires_grad) for spec in exported.inputs]
    assert described == [
        ("args[0]", (2, 3), False),
        ("self.weight", (4, 3), True),
        ("self.bias", (4,), True),
    ]
    (written,) = framejit.export(writes, vec(2)).inputs
    assert written.mutated and written.dtype is torch.float32
    x = vec(2, 3)
    (result,) = exported.graph_module(x, linear.weight, linear.bias)
    assert result.equal(linear(x))


def test_gradients_flow():
    exported = framejit.export(linear, vec(2, 3))
    (grad,) = torch.autograd.grad(exported(vec(2, 3)).sum(), [linear.weight])
    (expected,) = torch.autograd.grad(linear(vec(2, 3)).sum(), [linear.weight])
    torch.testing.assert_close(grad, expected)


@pytest.mark.parametrize("call", [lambda f: f(vec(5)), lambda f: f(vec(3), n=4)])
def test_another_call_is_refused(call):
    exported = framejit.export(scaled, vec(3), n=3)
    with pytest.raises(ValueError, match="for other calls: (x|n)"):
        call(exported)
    assert exported.conditions


def test_marked_dimensions_vary():
    x = vec(3)
    framejit.mark_dynamic(x, 0)
    exported = framejit.export(scaled, x)
    for n in (4, 9):
        assert exported(vec(n)).equal(scaled(vec(n)))
    assert isinstance(exported.inputs[0].shape[0], str)


def test_all_breaks_are_listed():
    def fn(x):
        y = x.sin()
        print("here")
        return y * (y.sum() > 0).item()

    with pytest.raises(framejit.ExportError) as refused:
        framejit.export(fn, vec(3))
    first, second = refused.value.reasons
    line = fn.__code__.co_firstlineno
    assert f"{__file__}:{line + 2}: print()" in first and f":{line + 3}: `.item()`" in second


kept: list[int] = []


def appends(x):
    kept.append(1)
    return x + 1


def assigns(x):
    global last
    last = 3
    return x + 1


def seeds(x):
    torch.manual_seed(0)
    return x + torch.rand(3)


def returns_a_set(x):
    return {x}


@pytest.mark.parametrize(
    "fn, said",
    [
        (appends, "is changed"),
        (assigns, "'last' is assigned"),
        (seeds, "random"),
        (returns_a_set, "its result"),
    ],
)
def test_other_effects_are_refused(fn, said):
    kept.clear()
    with pytest.raises(framejit.ExportError, match=said):
        framejit.export(fn, vec(3))
    assert not kept and "last" not in globals()


def test_wrong_arguments():
    with pytest.raises(TypeError, match="missing"):
        framejit.export(scaled)
    with pytest.raises(TypeError, match="takes"):
        framejit.export(3, vec(3))
