"""Strides of dimensions of one element, in results of elementwise operators, are eager's."""

from __future__ import annotations

import framejit
import pytest
import torch
from framejit.frontend.tracing.fake_tensors.fake_execution import CaptureFakeMode

BOTH_FORMATS = {
    "one channel": lambda: torch.randn(2, 1, 4, 5).to(memory_format=torch.channels_last),
    "one channel, last": lambda: torch.empty(2, 1, 4, 5, memory_format=torch.channels_last),
    "one pixel": lambda: torch.randn(2, 3, 1, 1).to(memory_format=torch.channels_last),
    "transposed": lambda: torch.randn(2, 3, 1, 5).transpose(1, 2),
    "odd stride": lambda: torch.randn(1, 3, 4, 5).as_strided((1, 3, 4, 5), (7, 20, 5, 1)),
    "odd stride, transposed": lambda: torch.randn(60).as_strided((1, 3, 5, 4), (7, 20, 1, 5)),
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
    "unsqueezed": lambda x: x.unsqueeze(-1) * x.unsqueeze(-1),
    "permuted": lambda x: x.permute(1, 0, 3, 2).exp(),
    "hardtanh": torch.nn.functional.hardtanh,
    "another dtype": lambda x: x.double(),
    "ones_like": torch.ones_like,
    "flip": lambda x: x.flip(1),
    "masked_fill": lambda x: x.masked_fill(x > 0, 1.0),
    "log_softmax": lambda x: x.log_softmax(1),
    "index_add": lambda x: x.index_add(0, torch.tensor([0]), x[:1]),
    "index_put": lambda x: x.index_put((torch.tensor([0]),), torch.tensor(1.0)),
    "triangle": torch.tril,
    "prelu": lambda x: torch.nn.functional.prelu(x, torch.ones(1)),
    "batch_norm": lambda x: torch.nn.functional.batch_norm(
        x, torch.zeros(x.shape[1]), torch.ones(x.shape[1])
    ),
    "group_norm": lambda x: torch.nn.functional.group_norm(x, 1),
    "roll": lambda x: x.roll(1, 2),
    **{
        f"resize, {mode}": lambda x, mode=mode: torch.nn.functional.interpolate(
            x, scale_factor=2, mode=mode
        )
        for mode in ("nearest", "nearest-exact", "bilinear", "bicubic")
    },
    "resize, antialiased": lambda x: torch.nn.functional.interpolate(
        x, size=(3, 5), mode="bilinear", antialias=True
    ),
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


def test_results_of_decompositions():
    x = BOTH_FORMATS["odd stride"]()

    def every(x):
        names = "log_softmax", "in place", "batch_norm", "prelu", "triangle"
        return [OPERATORS[name](x) for name in names]

    for got, expected in zip(framejit.compile(every, backend="native")(x), every(x), strict=True):
        assert got.stride() == expected.stride()
        torch.testing.assert_close(got, expected)


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
