"""Operators on fake tensors whose sizes vary run once a capture, with the same results and guards as
if they ran each time."""

from __future__ import annotations

import framejit
import pytest
import torch
from framejit.frontend.tracing.fake_tensors import fake_execution, varying_results
from framejit.frontend.tracing.fake_tensors.fake_execution import CaptureFakeMode
from framejit.frontend.tracing.fake_tensors.fake_rules import FakeRules
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    ShapeEnv,
    StatelessSymbolicContext,
)
from torch.nn import functional as F
from torch.utils import _pytree as pytree


def mode_with_symbols():
    mode = CaptureFakeMode()
    mode.shape_env, mode.static_shapes, mode.cache_enabled = ShapeEnv(), False, False
    return mode


def varying(mode, rows, columns=3, **how):
    """A fake tensor with a symbol for its rows, each with its own."""
    context = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC, DimDynamic.STATIC])
    source = ConstantSource(f"argument{rows}")
    made = mode.from_tensor(
        torch.ones(rows, columns, **how), symbolic_context=context, source=source
    )
    assert isinstance(made.shape[0], torch.SymInt)
    return made


@pytest.fixture
def runs(monkeypatch):
    """The operators that torch's mode ran, without rules."""
    ran = []
    monkeypatch.setattr(FakeRules, "results", lambda self, *call: None)
    monkeypatch.setattr(fake_execution, "results_by_twins", lambda *call: None)
    kept = FakeTensorMode.dispatch
    monkeypatch.setattr(
        FakeTensorMode,
        "dispatch",
        lambda self, func, *given: ran.append(func) or kept(self, func, *given),
    )
    return ran


CALLS = {
    "pointwise": lambda x: x * 2.0 + x.exp(),
    "product": lambda x: x @ torch.ones(3, 4),
    "reduction": lambda x: (x.sum(0), x.amax(1, keepdim=True), x.var(1)),
    "several results": lambda x: torch.max(x, 1),
    "transposed": lambda x: x.t() * 2,
    "broadcast": lambda x: x + torch.ones(3),
    "joined": lambda x: torch.cat([x, x * 2], 1),
    "sizes": lambda x: x.new_zeros(x.shape[0] * 2, x.shape[0]),
    "normed": lambda x: F.layer_norm(x, (3,)),
    "views": lambda x: (x.view(-1, 1), x[1:], x.expand(2, -1, 3)),
    "writes": lambda x: x.clone().mul_(2),
}


def layouts(results):
    return [
        (
            tuple(str(size) for size in item.shape),
            tuple(str(stride) for stride in item.stride()),
            item.dtype,
            item.requires_grad,
            item._is_view(),
        )
        for item in pytree.tree_leaves(results)
    ]


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("grad", [False, True], ids=["", "grad"])
def test_results_are_those_of_torch(call, grad, monkeypatch):
    found = []
    for cached in (True, False):
        mode = mode_with_symbols()
        if not cached:
            monkeypatch.setattr(varying_results, "is_cacheable", lambda func: False)
        x = varying(mode, 5, requires_grad=grad)
        with mode:
            made = [layouts(call(x)) for _ in range(3)]
        guards = [str(guard.expr) for guard in mode.shape_env.guards]
        found.append((made, guards))
    assert found[0] == found[1]
    assert found[0][0][0] == found[0][0][2]


@pytest.mark.parametrize("name", ["pointwise", "product", "reduction", "several results", "sizes"])
def test_equal_operators_run_once(name, runs):
    mode = mode_with_symbols()
    x, other = varying(mode, 5), varying(mode, 7)
    with mode:
        CALLS[name](x)
        runs.clear()
        CALLS[name](x)
        assert runs == []
        CALLS[name](other)  # another symbol
        assert runs


@pytest.mark.parametrize(
    "first, second",
    [
        (lambda x: x * 0.0, lambda x: x * -0.0),
        (lambda x: x * 1, lambda x: x * 1.0),
        (lambda x: x.sum(0), lambda x: x.sum(1)),
        (lambda x: x.t().exp(), lambda x: x.exp()),
        (lambda x: x.new_zeros(x.shape[0], 2), lambda x: x.new_zeros(x.shape[0] * 2, 2)),
        (lambda x: x.half() + 1, lambda x: x + 1),
    ],
)
def test_other_arguments_are_other_operators(first, second, runs):
    mode = mode_with_symbols()
    x = varying(mode, 5)
    with mode:
        x.half(), x.t()
        first(x)
        runs.clear()
        second(x)
        assert runs


def test_results_have_memory_of_their_own():
    mode = mode_with_symbols()
    x = varying(mode, 5)
    with mode:
        made = [x.exp() for _ in range(3)]
    assert len({item.untyped_storage()._cdata for item in [x, *made]}) == 4


def test_memory_of_a_cached_result_cannot_be_read():
    mode = mode_with_symbols()
    x = varying(mode, 5)
    with mode:
        x.exp()
        made = x.exp()
    with pytest.raises(RuntimeError):
        made.data_ptr()


def test_a_guard_of_the_first_of_equal_operators_holds_for_all():
    def function(x, y):
        return (x + y, x + y), x.shape[0]

    compiled = framejit.compile(function, backend="eager", dynamic=True)
    for rows, others in ((4, 4), (5, 5), (5, 1), (1, 5)):
        x, y = torch.randn(rows, 3), torch.randn(others, 3)
        torch.testing.assert_close(compiled(x, y), function(x, y))
