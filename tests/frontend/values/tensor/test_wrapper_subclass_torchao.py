"""Weights that torchao has quantized: one graph, equal to eager, without a warning. And a class with
torchao's `__torch_function__`, where torchao is not installed."""

from __future__ import annotations

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from ...semantics.harness import strict_compile
from .wrappers import Int8Weight

CONFIGS = {
    "int8": ("Int8WeightOnlyConfig", {}),
    "int8, dynamic": ("Int8DynamicActivationInt8WeightConfig", {}),
    "float8": ("Float8WeightOnlyConfig", {}),
    "int4": ("IntxWeightOnlyConfig", {"weight_dtype": torch.int4}),
}
ROUNDING = {torch.float32: 1e-5, torch.bfloat16: 0.02}


def dispatch(cls, func, types, args=(), kwargs=None):
    """A product with a weight multiplies in float64; all else is left to the operators."""
    kwargs = kwargs or {}
    with torch._C.DisableTorchFunctionSubclass():
        if func is F.linear:
            return F.linear(args[0].double(), args[1].dequantize().double()).float()
        return func(*args, **kwargs)


dispatch.__module__ = "torchao.utils"


class LikeTorchao(Int8Weight):
    __torch_function__ = classmethod(dispatch)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native", "autotune"])
def test_a_torch_function_of_torchao(backend):
    weight = LikeTorchao.quantize(torch.randn(8, 16))

    def step(x):
        return F.linear(x, weight).relu() + 1

    handle = strict_compile(step, backend=backend)
    x = torch.randn(4, 16)
    for _ in range(2):
        assert torch.equal(handle(x), step(x))
    report = handle.framejit.explain()
    assert len(report.graphs) == 1 and not report.breaks


@pytest.mark.parametrize("dtype", ROUNDING, ids=str)
@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("backend", ["eager", "native", "autotune"])
def test_linear_layers(backend, config, dtype):
    quantization = pytest.importorskip("torchao.quantization")
    name, arguments = CONFIGS[config]
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 64)).to(dtype)
    quantization.quantize_(model, getattr(quantization, name)(**arguments))

    def step(x):
        return model(x)

    handle = strict_compile(step, backend=backend)
    x = torch.randn(8, 64, dtype=dtype)
    with torch.no_grad(), warnings.catch_warnings():
        wanted = step(x)
        warnings.simplefilter("error")
        for _ in range(2):
            found = handle(x)
    close = ROUNDING[dtype]
    torch.testing.assert_close(found, wanted, rtol=close, atol=close)
    report = handle.framejit.explain()
    assert len(report.graphs) == 1 and not report.breaks
