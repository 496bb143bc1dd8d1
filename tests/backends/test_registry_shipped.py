"""Backends that hand graphs to other compilers: equal to eager, parameters that change are seen."""

from __future__ import annotations

import framejit
import pytest
import torch


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4)
    ).eval()


@pytest.mark.parametrize("backend", ["torchscript", "onnxruntime", "native"])
def test_a_model_equals_eager_and_its_parameters_may_change(backend):
    plain, compiled = model(), framejit.compile(model(), backend=backend)
    x = torch.randn(5, 8)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), plain(x))
        for module in (plain, compiled):
            module[0].weight.mul_(2)
        torch.testing.assert_close(compiled(x), plain(x))
        torch.testing.assert_close(compiled(x[:3]), plain(x[:3]))
    assert not compiled.framejit.explain().breaks


@pytest.mark.parametrize("backend", ["torchscript", "onnxruntime"])
def test_graphs_that_need_gradients_run_in_eager(backend):
    plain, compiled = model(), framejit.compile(model(), backend=backend)
    x = torch.randn(5, 8)
    for module in (plain, compiled):
        module(x).sum().backward()
    torch.testing.assert_close(compiled[0].weight.grad, plain[0].weight.grad)


def test_inductor_swaps_what_is_swapped():
    """Inductor by itself gives both tensors the same values, under torch.compile too."""
    seen = []

    def swap(a, b):
        held = a.clone()
        a[...] = b
        b.copy_(held)
        return a.sum()

    handle = framejit.compile(
        swap, backend="inductor", options={"joint_custom_pre_pass": seen.append}
    )
    for call in (swap, handle):
        a, b = torch.tensor([1.0, -0.0, float("nan")]), torch.tensor([4.0, 5.0, 6.0])
        expected = b.clone(), a.clone()
        assert call(a, b) == 15
        for mine, yours in zip((a, b), expected, strict=True):
            assert torch.equal(mine.view(torch.int32), yours.view(torch.int32))
    assert seen
