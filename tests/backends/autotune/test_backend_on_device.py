"""The default backend on a CUDA device: what it chooses, what it leaves, what it costs."""

from __future__ import annotations

import gc

import framejit
import pytest
import torch
from framejit.events import Chosen
from torch import nn

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def _default(cache_dir):
    with framejit.config.patch(backend="autotune"):
        yield


def choices(compiled):
    controls = getattr(compiled.framejit, "_controls", [compiled.framejit])
    return [
        event
        for control in controls
        for event in control.history.events
        if isinstance(event, Chosen)
    ]


def small():
    torch.manual_seed(0)
    return nn.Sequential(
        *(nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.GELU()) for _ in range(30))
    ).cuda()


def off(got, true):
    """How far a float32 result is from the float64 one, as a share of the latter."""
    return ((got.double() - true).norm() / true.norm()).item()


@pytest.mark.parametrize("grad", [False, True])
def test_many_small_kernels_are_recorded(grad):
    model, plain, exact = (
        framejit.compile(small(), options={"patience": 0}),
        small(),
        small().double(),
    )
    x = torch.randn(8, 64, device="cuda")
    for _ in range(4):
        with torch.set_grad_enabled(grad):
            got, wanted = model(x), plain(x)
        torch.testing.assert_close(got, wanted)
        if grad:
            for result in (got, wanted, exact(x.double())):
                result.sum().backward()
    (choice,) = choices(model)
    assert (
        "cudagraphs" in choice.backend
        and dict(choice.timings)[choice.backend] < 0.9 * dict(choice.timings)["eager"]
    )
    if grad:
        for got, wanted, true in zip(
            model.parameters(), plain.parameters(), exact.parameters(), strict=True
        ):
            assert off(got.grad, true.grad) <= 4 * off(wanted.grad, true.grad) + 1e-6
    again = framejit.compile(small(), options={"patience": 0})
    with torch.set_grad_enabled(grad):
        again(x)
    (choice,) = choices(again)
    assert choice.why == "remembered"


def test_reduce_overhead_forces_it():
    compiled = framejit.compile(lambda x: (x @ x).relu() + 1, mode="reduce-overhead")
    x = torch.randn(2048, 2048, device="cuda")
    compiled(x)
    (choice,) = choices(compiled)
    assert "cudagraphs" in choice.backend
    compiled = framejit.compile(
        lambda x: (x @ x).relu() - 1,
        mode="max-autotune-no-cudagraphs",
        options={"candidates": ["cudagraphs"]},
    )
    compiled(x)
    assert choices(compiled) == []


def test_tuning_leaves_no_memory():
    x = torch.randn(1024, 1024, device="cuda")

    def f(x):
        return ((x @ x).sin() @ x).cos().sum(0)

    left = []
    for _ in range(3):  # the first time cuBLAS takes a workspace for the stream of recordings
        compiled = framejit.compile(
            f, options={"remember": False, "candidates": ["cudagraphs", "aot_eager"]}
        )
        compiled(x)
        compiled.framejit.reset()
        gc.collect()
        torch.cuda.empty_cache()
        left.append(torch.cuda.memory_allocated())
    assert left[2] <= left[1] <= left[0]
