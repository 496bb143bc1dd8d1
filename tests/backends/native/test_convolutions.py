"""Convolutions in training: biases apart and images channels-last, as on a GPU, give eager's values
in eager's layouts."""

from __future__ import annotations

import copy
from functools import partial

import framejit
import pytest
import torch
import torch.nn.functional as F
from framejit.backends.graph.passes import convolution_biases
from framejit.backends.native import channels_last, convolutions
from torch import nn


class Residual(nn.Module):
    """As in a ResNet: batch norms, a pooled image, a block with a shortcut, a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.first = nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16)
        self.wide, self.second = nn.Conv2d(16, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16)
        self.point, self.third = nn.Conv2d(16, 16, 1), nn.BatchNorm2d(16)
        self.last = nn.Linear(16, 5)

    def forward(self, x):
        x = F.max_pool2d(F.silu(self.first(self.stem(x))), 3, 2, 1)
        y = self.third(self.point(F.silu(self.second(self.wide(x)))))
        return self.last(F.silu(x + y).mean((2, 3)))


class Levels(nn.Module):
    """As in a U-Net: group norms, two sizes of images, views of images, and several results."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8)
        self.middle, self.inner = nn.Conv2d(8, 16, 3, padding=1), nn.GroupNorm(4, 16)
        self.mix, self.up = nn.Linear(16, 16), nn.Conv2d(24, 8, 3, padding=1)
        self.out = nn.ConvTranspose2d(8, 4, 2, 2)

    def forward(self, x):
        high = F.silu(self.norm(self.down(x)))
        low = F.silu(self.inner(self.middle(F.avg_pool2d(high, 2))))
        batch, width, rows, columns = low.shape
        mixed = self.mix(low.flatten(2).transpose(1, 2)).transpose(1, 2)
        low = low + mixed.reshape(batch, width, rows, columns)
        up = self.up(torch.cat([F.interpolate(low, scale_factor=2.0), high], 1))
        return self.out(up), up[:, :3], high


class Squeezed(nn.Module):
    """As in a MobileNet: an activation in place, whose saved result an operator reads that is not
    channels-last, and factors of the channels from the pooled image."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16)
        self.squeeze, self.excite = nn.Conv2d(16, 8, 1), nn.Conv2d(8, 16, 1)
        self.last = nn.Conv2d(16, 8, 1)

    def forward(self, x):
        x = F.hardswish(self.norm(self.first(x)), inplace=True)
        factors = self.excite(F.relu(self.squeeze(F.adaptive_avg_pool2d(x, 1))))
        return self.last(F.hardsigmoid(factors) * x)


@pytest.fixture
def as_on_a_gpu(monkeypatch):
    """Graphs on the CPU are changed as those on a GPU are. The graphs that became channels-last."""
    changed = []

    def train(forward, backward, results, saved):
        channels_last.train_channels_last(forward, backward, results, saved)
        changed.append((forward, backward))

    is_convolution = lambda node: node.target is channels_last.CONVOLUTION  # noqa: E731
    for name in ("take_out_biases", "take_out_bias_gradients"):
        function = getattr(convolution_biases, name)
        monkeypatch.setattr(convolutions, name, partial(function, devices=("cpu",)))
    monkeypatch.setattr(convolutions, "is_convolution_on_gpu", is_convolution)
    monkeypatch.setattr(convolutions, "is_worthwhile", lambda found: True)
    monkeypatch.setattr(convolutions, "train_channels_last", train)
    return changed


def train(model, x):
    """The results, and all gradients."""
    x = x.clone().requires_grad_()
    results = model(x)
    results = results if isinstance(results, tuple) else (results,)
    weights = (torch.arange(float(item.numel())).sin().view(item.shape) for item in results)
    sum((item * weight).sum() for item, weight in zip(results, weights, strict=True)).backward()
    return [*results, x.grad, *(parameter.grad for parameter in model.parameters())]


@pytest.mark.parametrize(
    ("optimized", "dynamic"),
    [(True, False), (False, False), (True, True)],
    ids=["channels last", "biases", "sizes that vary"],
)
@pytest.mark.parametrize("make", [Residual, Levels, Squeezed])
@pytest.mark.sweep(3, each=("make",))
def test_equals_eager(make, optimized, dynamic, as_on_a_gpu):
    torch.manual_seed(0)
    model, options = make(), {"layout_optimization": optimized}
    compiled = framejit.compile(
        copy.deepcopy(model), backend="native", options=options, dynamic=dynamic
    )
    for layout in (torch.contiguous_format, torch.channels_last):
        x = torch.randn(4, 3, 16, 16).to(memory_format=layout)
        expected = train(copy.deepcopy(model), x)
        for parameter in compiled.parameters():
            parameter.grad = None
        for got, want in zip(train(compiled, x), expected, strict=True):
            torch.testing.assert_close(got, want, check_stride=True, rtol=1e-3, atol=1e-3)
    assert bool(as_on_a_gpu) == (optimized and not dynamic)


@pytest.mark.parametrize(("make", "most"), [(Residual, 0), (Levels, 3)])
def test_images_between_convolutions_are_not_converted(make, most, as_on_a_gpu):
    """Clones are of the graph's inputs, of results, and around the linear layer of Levels."""
    train(framejit.compile(make(), backend="native"), torch.randn(4, 3, 16, 16))
    clone = channels_last.CLONE
    for graph in (graph for pair in as_on_a_gpu for graph in pair):
        ends = set(graph.output_node().all_input_nodes)
        between = [
            node
            for node in graph.find_nodes(op="call_function", target=clone)
            if node.args[0].op != "placeholder" and node not in ends
        ]
        assert len(between) <= most, between


class PaddedMeans(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.behind = nn.Conv2d(3, 16, 3), nn.Conv2d(16, 16, 3)

    def forward(self, x):
        x = F.silu(self.before(x))
        return self.behind(F.avg_pool2d(x, 3, 1, 1, count_include_pad=False))


def test_padded_means_keep_their_layout_in_the_backward_pass(as_on_a_gpu):
    """torch's CUDA kernel for channels-last images gives wrong gradients there."""
    torch.manual_seed(0)
    model, x = PaddedMeans(), torch.randn(2, 3, 12, 12)
    expected = train(copy.deepcopy(model), x)
    compiled = framejit.compile(model, backend="native")
    for got, want in zip(train(compiled, x), expected, strict=True):
        torch.testing.assert_close(got, want, check_stride=True, rtol=1e-3, atol=1e-3)
    target = torch.ops.aten.avg_pool2d_backward.default
    (node,) = (
        node
        for _, backward in as_on_a_gpu
        for node in backward.find_nodes(op="call_function", target=target)
    )
    assert all(image.meta["val"].is_contiguous() for image in node.all_input_nodes)


def test_gradients_of_biases_alone(as_on_a_gpu):
    """Of frozen weights, and images without a gradient, only the sum is left."""
    model = nn.Conv2d(3, 4, 3)
    model.weight.requires_grad_(False)
    expected = copy.deepcopy(model)
    compiled, x = framejit.compile(model, backend="native"), torch.randn(2, 3, 8, 8)
    for run in (compiled, expected):
        run(x).square().sum().backward()
    torch.testing.assert_close(model.bias.grad, expected.bias.grad, rtol=1e-4, atol=1e-4)
    assert "convolution_backward" not in str([*compiled.framejit.explain().notes])
