"""Batch norms in training: kernels of ours normalize and store the running statistics in place."""

from __future__ import annotations

import copy

import framejit
import pytest
import torch
import torch.nn.functional as F
from framejit.backends.native import batch_norms
from torch import nn

SHAPES = {
    "images": (4, 6, 5, 3), "one image": (1, 6, 3, 3), "nothing": (0, 6, 3, 3), "rows": (8, 6),
    "signals": (4, 6, 5), "volumes": (2, 6, 3, 4, 2),
}  # fmt: skip
KINDS = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}
SETTINGS = {
    "default": {}, "average of all batches": {"momentum": None}, "no weight": {"affine": False},
    "no statistics": {"track_running_stats": False},
}  # fmt: skip


def train(model, x):
    leaf = x.clone().requires_grad_()
    model(leaf)
    result = model(leaf)
    gradients = torch.autograd.grad(
        result.float().square().sum(), [leaf, *model.parameters()], allow_unused=True
    )
    return result.detach(), *gradients, *model.buffers()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.sweep(5, each=("shape", "setting", "dtype"))
def test_equals_eager(shape, setting, dtype):
    torch.manual_seed(0)
    size = SHAPES[shape]
    norm = KINDS[len(size)](6, **SETTINGS[setting]).to(dtype)
    x = (torch.randn(size) * 2 + 1).to(dtype)
    eager, compiled = nn.Sequential(norm, nn.ReLU()), nn.Sequential(copy.deepcopy(norm), nn.ReLU())
    framejit.compile(compiled, backend="native")
    tolerance = 3e-2 if dtype == torch.bfloat16 else 1e-4
    torch.testing.assert_close(
        train(compiled, x), train(eager, x), rtol=tolerance, atol=tolerance, equal_nan=True
    )


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("kind", [nn.InstanceNorm1d, nn.InstanceNorm2d])
def test_instance_norms(kind, affine, reports):
    torch.manual_seed(0)
    x = torch.randn(*SHAPES["images" if kind is nn.InstanceNorm2d else "signals"])
    model = kind(6, affine=affine)
    expected = train(model, x)
    torch.testing.assert_close(
        train(framejit.compile(model, backend="native"), x), expected, rtol=1e-4, atol=1e-4
    )
    assert not [name for name in reports[0].called if "norm" in name], reports[0].called


def test_one_kernel_normalizes_and_keeps_the_statistics(reports):
    model = nn.Sequential(nn.BatchNorm2d(6), nn.ReLU())
    framejit.compile(model, backend="native")(torch.randn(4, 6, 5, 3, requires_grad=True))
    assert not reports[0].called and ".copy_(" not in reports[0].host, reports[0].host


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_infinite_images_have_an_infinite_mean(dtype):
    norm, x = nn.BatchNorm2d(3).to(dtype), torch.randn(4, 3, 5, 3).to(dtype)
    x[0, 0, 0, 0], x[1, 1, 0, 0], x[2, 2, 0, :2] = torch.inf, -torch.inf, -x.new_tensor(torch.nan)
    compiled = framejit.compile(copy.deepcopy(norm), backend="native")
    torch.testing.assert_close(compiled(x), norm(x), equal_nan=True)
    torch.testing.assert_close([*compiled.buffers()], [*norm.buffers()], equal_nan=True)


@pytest.mark.parametrize("shape", [(6, 6, 180, 180), (200000, 6), (1, 6, 40, 70, 70)])
def test_statistics_of_many_elements(shape):
    """Channels far from zero, of equal numbers, with an outlier in the sample, and ordinary ones:
    as near to float64 as rounding allows."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    over = [dim for dim in range(x.dim()) if dim != 1]
    x[:, 0] += 1000
    x[:, 1] = 0.1
    each = round(batch_norms.SAMPLE ** (1 / len(over)))
    place = [-(-size // each) // 2 for size in shape]
    place[1] = 2
    x[tuple(place)] = 1e4
    estimate = batch_norms.estimated_mean(x, over)
    mean, var = batch_norms.moments_near(estimate, x, over)
    exact_var, exact = torch.var_mean(x.double(), over, correction=0, keepdim=True)
    assert x.numel() > batch_norms.MANY and not torch.equal(estimate, mean)
    assert ((mean - exact).abs() <= 1e-7 * (exact.abs() + exact_var.sqrt())).all()
    assert ((var - exact_var).abs() <= 5e-7 * exact_var).all() and var[:, 1].item() == 0


def test_infinite_elements_among_many(reports):
    x = torch.randn(8, 3, 210, 210)
    x[1, 0, 26, 26], x[1, 1, 0, 0] = torch.inf, -torch.inf  # in the sample, and outside
    assert batch_norms.estimated_mean(x, [0, 2, 3])[0, 0].item() == torch.inf
    norm = nn.BatchNorm2d(3)
    compiled = framejit.compile(copy.deepcopy(norm), backend="native")
    torch.testing.assert_close(compiled(x), norm(x), equal_nan=True)
    torch.testing.assert_close([*compiled.buffers()], [*norm.buffers()], equal_nan=True)
    assert not reports[0].called


def test_many_elements_are_read_twice(reports):
    """Once for the statistics, once to normalize them."""
    x = torch.randn(8, 64, 60, 60)
    framejit.compile(lambda x: F.batch_norm(x, None, None, training=True), backend="native")(x)
    sample, norm = reports[0].kernels
    assert "amax" in str(sample.ops) and norm.text.count("= in0[") == 2, norm.text
