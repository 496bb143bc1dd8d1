"""Interpolation runs torch's own operators: equal to the last bit, forward and backward."""

from __future__ import annotations

import framejit
import pytest
import torch
from framejit.backends.graph.tracing_lock import trace_operators
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F

MODES = {
    "nearest": 2, "nearest-exact": 2, "linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3,
}  # fmt: skip
SIZES = [{"scale_factor": 2}, {"size": 9}, {"scale_factor": 0.5}, {"scale_factor": 1.3}]


@pytest.mark.parametrize("backend", ["native", "aot_eager"])
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("mode", MODES)
def test_equals_eager(mode, size, backend):
    def function(x):
        return F.interpolate(x * 2, mode=mode, **size)

    compiled = framejit.compile(function, backend=backend)
    torch.manual_seed(0)
    x = torch.randn(2, 3, *[8] * MODES[mode], requires_grad=True)
    found, expected = compiled(x), function(x)
    assert torch.equal(found, expected) and found.stride() == expected.stride()
    gradient = torch.randn_like(expected)
    ours, theirs = (torch.autograd.grad(result, x, gradient)[0] for result in (found, expected))
    assert torch.equal(ours, theirs) and compiled.framejit.compiles == 1


@pytest.mark.parametrize("backend", ["native", "aot_eager"])
def test_of_sizes_that_vary(backend):
    def function(x):
        return F.interpolate(x, scale_factor=2, mode="bilinear").sum()

    compiled = framejit.compile(function, backend=backend, dynamic=True)
    for size in (8, 10, 13):
        x = torch.randn(2, 3, size, size, requires_grad=True)
        found, expected = (torch.autograd.grad(run(x), x)[0] for run in (compiled, function))
        torch.testing.assert_close(found, expected)
    assert compiled.framejit.compiles == 1


@pytest.mark.parametrize("backend", ["eager", "native", "aot_eager"])
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "linear"])
def test_layout_of_rows_that_vary(backend, mode):
    def function(x):
        y = F.interpolate(x, scale_factor=2, mode=mode)
        return y, y.stride()

    compiled = framejit.compile(function, backend=backend, dynamic=True)
    x = torch.randn(5, 4, 3).permute(2, 1, 0)
    (found, seen), (expected, strides) = compiled(x), function(x)
    assert found.stride() == seen == strides
    torch.testing.assert_close(found, expected)


def test_an_operator_is_called():
    with FakeTensorMode() as mode, enable_python_dispatcher():
        image = mode.from_tensor(torch.randn(1, 1, 4, 4))
        traced = trace_operators(lambda x: F.interpolate(x, scale_factor=2), [image], {})
    assert torch.ops.aten.upsample_nearest2d.default in [node.target for node in traced.graph.nodes]
