"""Lowering for a CUDA device adds no guards on sizes that vary. It runs on fake tensors, without
a device."""

from __future__ import annotations

import pytest
import torch
import torch.fx
from framejit.backends.graph.passes.functional import functional
from framejit.backends.native.decompositions import decompositions
from framejit.backends.native.lower.build import lower
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
from torch.nn import functional as F

ATTENTIONS = {
    "flash": lambda q, k, v: torch.ops.aten._scaled_dot_product_flash_attention(q, k, v)[0],
    "efficient": lambda q, k, v: torch.ops.aten._scaled_dot_product_efficient_attention(
        q, k, v, None, True
    )[0],
    "cudnn": lambda q, k, v: torch.ops.aten._scaled_dot_product_cudnn_attention(
        q, k, v, None, True
    )[0],
    "by hand": lambda q, k, v: (q @ k.mT * 0.25).softmax(-1) @ v,
}
HEADS = 4


def layer(attention, width):
    """Self-attention over (batch, length, width), where batch and length vary."""

    def run(x, weight, bias):
        batch, length, _ = x.shape
        q, k, v = (
            F.linear(F.gelu(x), weight, bias)
            .view(batch, length, 3 * HEADS, width)
            .transpose(1, 2)
            .chunk(3, 1)
        )
        y = attention(q, k, v).transpose(1, 2).reshape(batch, length, HEADS * width)
        return (F.layer_norm(y, (HEADS * width,)) + x,)

    return run


def captured(function, examples):
    """A graph as a capture hands it over: nodes with fake results."""
    gm = torch.fx.symbolic_trace(function)
    fakes = iter(examples)
    results = {}

    def value(node):
        return results[node]

    for node in gm.graph.nodes:
        if node.op == "placeholder":
            results[node] = next(fakes)
        elif node.op != "output":
            args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), value)
            results[node] = (
                getattr(args[0], node.target)(*args[1:], **kwargs)
                if node.op == "call_method"
                else node.target(*args, **kwargs)
            )
        node.meta["example_value"] = results.get(node)
    return gm


@pytest.mark.parametrize(
    "width", [16, 13]
)  # of a head: fused kernels pad one that is no multiple of eight
@pytest.mark.parametrize("name", ATTENTIONS)
def test_no_size_is_pinned(name, width):
    env = ShapeEnv(specialize_zero_one=False, duck_shape=False)
    mode = FakeTensorMode(shape_env=env)
    varies = StatelessSymbolicContext(
        dynamic_sizes=[DimDynamic.DYNAMIC, DimDynamic.DYNAMIC, DimDynamic.STATIC],
        constraint_sizes=[None] * 3,
    )
    dense = HEADS * width
    x = mode.from_tensor(
        torch.empty(3, 6, dense, device="meta"), static_shapes=False, symbolic_context=varies
    )
    with mode, enable_python_dispatcher():
        x = torch.empty_strided(x.shape, x.stride(), device="cuda", dtype=torch.float16)
        weight, bias = (
            torch.empty(*sizes, device="cuda", dtype=torch.float16)
            for sizes in ((3 * dense, dense), (3 * dense,))
        )
        gm = captured(layer(ATTENTIONS[name], width), (x, weight, bias))
    symbols = {size.node.expr for size in x.shape[:2]}
    aten_graph = functional(gm, decompositions())
    program = lower(aten_graph, ("cuda",))
    assert {env.replace(symbol) for symbol in symbols} == symbols
    assert program.steps and set(program.sizes) >= set(map(str, symbols))
