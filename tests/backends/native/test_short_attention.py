"""Attention over short sequences is decomposed where torch's kernel for GPUs is slow. The operator
has no kernel on the CPU; its results there are fake."""

from __future__ import annotations

import framejit
import pytest
import torch
import torch.nn.functional as F
from framejit.backends.native import short_attention
from framejit.backends.native.efficient_attention import (
    BACKWARD,
    EFFICIENT,
    attend,
    attend_backward,
)
from torch._subclasses.fake_tensor import FakeTensorMode


@pytest.fixture
def rounded(monkeypatch):
    monkeypatch.setattr(short_attention, "rounds_matrix_products_on_cuda", lambda: True)


def inputs(queries=21, keys=21, heads=4, device="cpu", dtype=torch.float32):
    sizes = (3, queries, heads, 16), (3, keys, heads, 16), (3, keys, heads, 8)
    made = (torch.randn(size, device=device, dtype=dtype) for size in sizes)
    return [one.transpose(1, 2) for one in made]


@pytest.mark.parametrize(
    ("is_causal", "scale", "keys"), [(False, None, 33), (True, 0.3, 21), (True, None, 9)]
)
def test_it_is_attention(monkeypatch, is_causal, scale, keys):
    monkeypatch.setattr(short_attention, "is_worthwhile", lambda *arguments: True)
    given = [one.requires_grad_() for one in inputs(keys=keys)]
    expected = F.scaled_dot_product_attention(*given, is_causal=is_causal, scale=scale)
    result, logarithms, *_ = attend(*given, None, True, 0.0, is_causal, scale=scale)
    torch.testing.assert_close(result, expected)
    gradient = torch.randn_like(expected)
    saved = result.detach(), logarithms.detach()
    got = attend_backward(
        gradient, *given, None, *saved, None, None, 0.0, [True] * 4, is_causal, scale=scale
    )
    wanted = torch.autograd.grad(expected, given, gradient)
    torch.testing.assert_close(got[:3], wanted)


def test_results_are_laid_out_as_torchs(rounded):
    with FakeTensorMode():
        given = inputs(device="cuda")
        got, expected = attend(*given, None, True), EFFICIENT(*given, None, True)
        saved = expected[0], expected[1], *expected[2:], 0.0, [True, True, True, False]
        gradient = torch.empty_like(expected[0])
        of_inputs = attend_backward(gradient, *given, None, got[0], got[1], *saved[2:])
        of_torchs = BACKWARD(gradient, *given, None, *saved)
    for one, other in zip([got[0], *of_inputs[:3]], [expected[0], *of_torchs[:3]], strict=True):
        assert one.shape == other.shape and one.stride() == other.stride()


@pytest.mark.parametrize(
    ("more", "options"),
    [
        ({"dtype": torch.float16}, {}), ({"device": "cpu"}, {}), ({"queries": 1}, {}),
        ({"keys": 300}, {}), ({"heads": 40000}, {}), ({}, {"dropout": 0.1}), ({}, {"bias": 1}),
    ],
)  # fmt: skip
def test_what_is_left_to_torch(rounded, more, options):
    with FakeTensorMode():
        given = inputs(**{"device": "cuda", **more})
        bias, dropout = options.get("bias"), options.get("dropout", 0.0)
        assert attend(*given, bias, True, dropout) is NotImplemented
        rest = None, None, None, None, dropout, [True] * 4
        assert attend_backward(given[0], *given, bias, *rest) is NotImplemented


def test_exact_products_are_left_to_torch():
    with FakeTensorMode():
        assert attend(*inputs(device="cuda"), None, True) is NotImplemented


@pytest.mark.gpu
@pytest.mark.parametrize("is_causal", [False, True])
def test_training_on_a_gpu(is_causal):
    def attention(query, key, value):
        return F.scaled_dot_product_attention(query, key, value, is_causal=is_causal)

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        given = [one.detach().requires_grad_() for one in inputs(197, 197, 12, "cuda")]
        compiled = framejit.compile(attention, backend="native")
        got, expected = compiled(*given), attention(*given)
        gradient = torch.randn_like(expected)
        gradients = [torch.autograd.grad(one, given, gradient) for one in (got, expected)]
    finally:
        torch.set_float32_matmul_precision(before)
    torch.testing.assert_close(got, expected, rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(*gradients, rtol=1e-2, atol=1e-2)
    kernels = compiled.framejit.explain().graphs[0].kernels
    assert any("bmm" in name for part in kernels for name, _ in part.called)
