"""Kernels for a GPU are compiled while the next graph is lowered. Here C kernels with a delay
stand for them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import framejit
import pytest
import torch
from framejit.backends.native import backend as native
from framejit.backends.native.printers.host import Namespace
from torch.nn import functional as F


@pytest.fixture
def order(monkeypatch):
    """What happened to the kernels of each graph, in order."""
    told = []
    reuse_memory = native.reuse_memory

    def then_move(program):
        reuse_memory(program)
        moved(program, torch.device("cuda", 0))

    def moved(program, device):
        for name, buffer in program.buffers.items():
            program.buffers[name] = replace(buffer, device=device)

    def launches(program, kernels, namespace, choices):
        moved(program, torch.device("cpu"))
        late, number = Namespace({}), told.count("begun")
        calls = native.cpu_launches(program, kernels, late, native.CompileReport())
        told.append("begun")

        def finish():
            told.append(number)
            namespace.objects.update(late.objects)

        return SimpleNamespace(calls=calls, texts=dict.fromkeys(kernels, ""), finish=finish)

    made = SimpleNamespace(
        launches=launches, prologue=lambda *given, **how: [], prepare=lambda: None
    )
    monkeypatch.setattr(native, "reuse_memory", then_move)
    monkeypatch.setattr(native, "gpu", lambda: made)
    return told


def two_kernels(x, w):
    return F.softmax(x.sin() @ w, -1).cos() @ w


def test_the_backward_part_is_lowered_while_the_forward_ones_kernels_compile(order):
    inputs = [
        torch.randn(4, 4, generator=torch.Generator().manual_seed(seed)).requires_grad_()
        for seed in range(2)
    ]
    want = torch.autograd.grad(two_kernels(*inputs).sum(), inputs)
    got = torch.autograd.grad(
        framejit.compile(two_kernels, backend="native")(*inputs).sum(), inputs
    )
    torch.testing.assert_close(got, want)
    assert order == ["begun", "begun", 0, 1]


def test_without_gradients_they_are_there_when_the_graph_is(order):
    inputs = [torch.randn(4, 4, generator=torch.Generator().manual_seed(seed)) for seed in range(2)]
    torch.testing.assert_close(
        framejit.compile(two_kernels, backend="native")(*inputs), two_kernels(*inputs)
    )
    assert order == ["begun", 0]
