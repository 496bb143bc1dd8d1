"""Strides of dimensions of one element, in results of elementwise operators, are eager's."""

from __future__ import annotations

import framejit
import pytest
import torch
from framejit.frontend.tracing.fake_tensors.fake_execution import CaptureFakeMode

BOTH_FORMATS = {
    "one channel": lambda: torch.randn(2, 1, 4, 5).to(memory_format=torch.channels_last),
    "one pixel": lambda: torch.randn(2, 3, 1, 1).to(memory_format=torch.channels_last),
    "transposed": lambda: torch.randn(2, 3, 1, 5).transpose(1, 2),
    "not contiguous": lambda: torch.randn(2, 1, 5, 4).transpose(2, 3),
}
OPERATORS = {
    "exp": torch.exp,
    "clamp": lambda x: x.clamp(-1, 1),
    "power": lambda x: x**2,
    "add": lambda x: x + x,
    "add number": lambda x: x + 1,
    "compare": lambda x: x > 0,
    "where": lambda x: torch.where(x > 0, x, -x),
    "where number": lambda x: torch.where(x > 0, x, 0.0),
    "broadcast": lambda x: x * x[:1],
    "clone": torch.clone,
    "deg2rad": torch.deg2rad,
    "in place": lambda x: x.clone().exp_(),
    "gelu": torch.nn.functional.gelu,
}


@pytest.mark.parametrize("layout", BOTH_FORMATS)
@pytest.mark.parametrize("operator", OPERATORS)
def test_a_fake_result(operator, layout):
    x, function = BOTH_FORMATS[layout](), OPERATORS[operator]
    mode = CaptureFakeMode()
    fake = mode.from_tensor(x, static_shapes=True)
    expected = function(x).stride()
    for _ in range(2):  # calculated, and cached
        with mode:
            assert function(fake).stride() == expected


@pytest.mark.parametrize("dynamic", [None, True])
def test_a_result_of_compiled_code(dynamic):
    """Whether the convolution's result is channels-last depends on these strides."""

    def function(x, weight):
        y = x.exp()
        return y, torch.nn.functional.conv2d(y, weight)

    given = BOTH_FORMATS["one channel"](), torch.randn(6, 1, 3, 3)
    handle = framejit.compile(function, backend="native", dynamic=dynamic)
    for got, expected in zip(handle(*given), function(*given), strict=True):
        assert got.stride() == expected.stride()
        torch.testing.assert_close(got, expected)
