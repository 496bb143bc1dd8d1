"""Weights that torchao has quantized, and classes like its: one graph, equal to eager, without a
warning."""

from __future__ import annotations

import importlib
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
            product = F.linear(args[0].double(), args[1].dequantize().double())
            return product.to(args[0].dtype)
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
    assert len(report.graphs) == 1 and not report.breaks, report.details()


class LikeFloat8(LikeTorchao):
    """Elements of eight bits with an exponent, and a scale for each row."""

    @classmethod
    def quantize(cls, weight):
        scale = weight.abs().amax(1) / torch.finfo(torch.float8_e4m3fn).max
        return cls((weight / scale[:, None]).to(torch.float8_e4m3fn), scale, weight.dtype)


def multiply_integers(cls, func, types, args=(), kwargs=None):
    """A product quantizes its other operand, too, row by row."""
    with torch._C.DisableTorchFunctionSubclass():
        if func is not F.linear:
            return func(*args, **(kwargs or {}))
        x, weight, bias = args
        scale = x.float().abs().amax(-1, keepdim=True).clamp(min=1e-5) / 127
        rounded = (x.float() / scale).round().to(torch.int8)
        product = torch._int_mm(rounded, weight.stored.t())
        return (product.float() * scale * weight.scale.float()).to(x.dtype) + bias


multiply_integers.__module__ = "torchao.utils"


class LikeInt8Dynamic(Int8Weight):
    __torch_function__ = classmethod(multiply_integers)


class LikeInt4(Int8Weight):
    """Numbers from -8 to 7, a scale and a zero for each group of a row; a product takes no other
    way than the operators."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    def __init__(self, stored, scale, zero, dtype):
        self.stored, self.scale, self.zero = stored, scale, zero

    @staticmethod
    def __new__(cls, stored, scale, zero, dtype):
        return Int8Weight.__new__(cls, stored, scale, dtype)

    @classmethod
    def quantize(cls, weight):
        groups = weight.unflatten(1, (-1, 32))
        low, high = groups.amin(-1, keepdim=True), groups.amax(-1, keepdim=True)
        scale = (high - low) / 15
        zero = -8 - (low / scale).round()
        stored = ((groups / scale).round() + zero).clamp(-8, 7).to(torch.int8)
        return cls(stored.flatten(1), scale, zero, weight.dtype)

    def dequantize(self):
        groups = self.stored.unflatten(1, (-1, 32)).to(self.dtype)
        return ((groups - self.zero) * self.scale).flatten(1)

    def __tensor_flatten__(self):
        return ["stored", "scale", "zero"], self.dtype

    @classmethod
    def __tensor_unflatten__(cls, inner, dtype, size, stride):
        return cls(inner["stored"], inner["scale"], inner["zero"], dtype)

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        if func is torch.ops.aten.detach.default:
            one = args[0]
            return cls(one.stored, one.scale, one.zero, one.dtype)
        return super().__torch_dispatch__(func, types, args, kwargs)


def check_linear_layers(backend, dtype, quantize):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 64)).to(dtype)
    quantize(model)

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
    assert len(report.graphs) == 1 and not report.breaks, report.details()


BACKENDS = ("eager", "native", "autotune")


@pytest.mark.parametrize("dtype", ROUNDING, ids=str)
@pytest.mark.parametrize("weight", [LikeFloat8, LikeInt8Dynamic, LikeInt4])
@pytest.mark.parametrize("backend", BACKENDS)
def test_linear_layers_with_weights_of_other_forms(backend, weight, dtype):
    def quantize(model):
        for layer in (model[0], model[2]):
            quantized = weight.quantize(layer.weight.detach())
            layer.weight = nn.Parameter(quantized, requires_grad=False)

    check_linear_layers(backend, dtype, quantize)


@pytest.mark.torchao
@pytest.mark.parametrize("dtype", ROUNDING, ids=str)
@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_linear_layers_that_torchao_has_quantized(backend, config, dtype):
    quantization = importlib.import_module("torchao.quantization")
    name, arguments = CONFIGS[config]
    wanted = getattr(quantization, name)(**arguments)
    check_linear_layers(backend, dtype, lambda model: quantization.quantize_(model, wanted))
