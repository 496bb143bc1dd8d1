"""Attention with one query a sequence is decomposed where torch's kernel for GPUs is slow. The
operator has no kernel on the CPU; its results there are fake."""

from __future__ import annotations

import operator

import framejit
import pytest
import torch
import torch.nn.functional as F
from framejit.backends.graph.passes.functional import functional
from framejit.backends.native.efficient_attention import EFFICIENT, attend
from framejit.backends.native.one_row_attention import weighted_mean
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    ShapeEnv,
    StatelessSymbolicContext,
)


@pytest.mark.parametrize(("groups", "scale"), [(8, None), (2, 0.3)])
def test_weighted_mean_is_attention(groups, scale):
    query = torch.randn(3, 1, 8, 16).transpose(1, 2)
    key, value = torch.randn(2, 3, groups, 21, 16).unbind()
    got = weighted_mean(query, key, value, scale)
    expected = F.scaled_dot_product_attention(query, key, value, scale=scale, enable_gqa=True)
    torch.testing.assert_close(got, expected)


def fake_inputs(queries=1, dtype=torch.float32):
    query = torch.empty(3, queries, 8, 16, device="cuda", dtype=dtype).transpose(1, 2)
    return query, *torch.empty(2, 3, 8, 21, 16, device="cuda", dtype=dtype).unbind()


def test_results_are_laid_out_as_torchs():
    with FakeTensorMode():
        inputs = fake_inputs()
        got, expected = attend(*inputs, None, False)[0], EFFICIENT(*inputs, None, False)[0]
        assert got.shape == expected.shape and got.stride() == expected.stride()


def test_it_is_decomposed_for_all_sizes():
    real = torch.empty(3, 8, 21, 16)
    with FakeTensorMode(shape_env=ShapeEnv()) as mode:
        context = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC] * 4)
        batch, heads, length, width = mode.from_tensor(real, symbolic_context=context).shape
        assert isinstance(length, torch.SymInt)
        key = torch.empty(batch, heads, length, width, device="cuda")
        query = torch.empty(batch, heads, 1, width, device="cuda")
        graph = torch.fx.Graph()
        nodes = [graph.placeholder(name) for name in ("query", "key", "value")]
        attended = graph.call_function(EFFICIENT, (*nodes, None, False))
        result = graph.call_function(operator.getitem, (attended, 0))
        graph.output((result,))
        for node, fake in zip(nodes, (query, key, key), strict=True):
            node.meta["example_value"] = fake
        made = EFFICIENT(query, key, key, None, False)
        attended.meta["example_value"], result.meta["example_value"] = made, made[0]
        traced = functional(torch.fx.GraphModule({}, graph), {EFFICIENT: attend})
    names = [str(node.target) for node in traced.graph.nodes]
    assert "aten._softmax.default" in names and not any("attention" in name for name in names)


@pytest.mark.parametrize("change", ["queries", "halves", "bias", "training", "dropout", "causal"])
def test_other_attention_is_left_to_torch(change):
    with FakeTensorMode():
        inputs = fake_inputs(
            2 if change == "queries" else 1,
            torch.bfloat16 if change == "halves" else torch.float32,
        )
        bias = torch.empty(3, 8, 1, 21, device="cuda") if change == "bias" else None
        dropout = 0.1 if change == "dropout" else 0.0
        made = attend(*inputs, bias, change == "training", dropout, change == "causal")
        assert made is NotImplemented


@pytest.mark.gpu
def test_a_gpu_runs_kernels_of_ours():
    def attend(query, key, value):
        return F.scaled_dot_product_attention(query, key, value)

    compiled = framejit.compile(attend, backend="native", dynamic=True)
    with torch.no_grad():
        for length in (21, 30, 1000):
            query = torch.randn(3, 1, 8, 16, device="cuda").transpose(1, 2)
            key, value = torch.randn(2, 3, 8, length, 16, device="cuda").unbind()
            got, expected = compiled(query, key, value), attend(query, key, value)
            torch.testing.assert_close(got, expected)
            assert got.stride() == expected.stride()
    details = compiled.framejit.explain().details()
    made = [line.partition(": compiled: ")[2] for line in details.splitlines()]
    assert any(made) and not any("attention" in line for line in made), details
