"""Biases of convolutions that fused kernels add."""

from __future__ import annotations

import framejit
import pytest
import torch
from framejit.backends.graph.passes import convolution_biases
from framejit.backends.native import backend as native
from torch import nn
from torch.nn import functional as F

CASES = {
    "relu": (1, lambda m, x: F.relu(m.conv(x))),
    "returned": (1, lambda m, x: m.conv(x)),
    "used twice": (2, lambda m, x: (m.conv(x) * 2, m.conv(x).sum(1))),
    "transposed": (1, lambda m, x: m.transposed(x).tanh()),
    "one dimension": (1, lambda m, x: m.line(x.flatten(2)).exp()),
    "without a bias": (0, lambda m, x: m.bare(x) + 1),
    "grouped": (0, lambda m, x: m.grouped(x) + 1),
    "two": (2, lambda m, x: m.conv(x) - m.conv2(x)),
}


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.conv2 = nn.Conv2d(4, 6, 3), nn.Conv2d(4, 6, 3)
        self.transposed, self.line = nn.ConvTranspose2d(4, 6, 3), nn.Conv1d(4, 6, 3)
        self.bare, self.grouped = nn.Conv2d(4, 6, 3, bias=False), nn.Conv2d(4, 6, 3, groups=2)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_equals_eager(name, dynamic, monkeypatch):
    counts = []

    def on_the_cpu(graph):
        counts.append(convolution_biases.take_out_biases(graph, ("cpu",)))

    monkeypatch.setattr(native, "take_out_biases", on_the_cpu)
    expected, function = CASES[name]
    model, x = Convolutions().requires_grad_(False), torch.randn(2, 4, 8, 8)
    compiled = framejit.compile(lambda x: function(model, x), backend="native", dynamic=dynamic)
    torch.testing.assert_close(compiled(x), function(model, x), check_stride=True)
    assert counts == [expected]


def test_the_cpu_keeps_them(monkeypatch):
    counts = []
    original = convolution_biases.take_out_biases
    monkeypatch.setattr(native, "take_out_biases", lambda graph: counts.append(original(graph)))
    model = Convolutions().requires_grad_(False)
    framejit.compile(lambda x: model.conv(x) + 1, backend="native")(torch.randn(1, 4, 8, 8))
    assert counts == [0]
