"""Options of native: freezing, which notices changed parameters, and channels-last convolutions."""

from __future__ import annotations

import copy
import warnings
from types import SimpleNamespace

import framejit
import pytest
import torch
from framejit.backends.graph.passes import batch_norms
from framejit.backends.native import backend as native
from framejit.backends.native import channels_last
from torch import nn
from torch.nn import functional as F


class Normed(nn.Module):
    """Convolutions and products before batch norms, and around them what must keep its values and
    layout."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.first_norm = nn.Conv2d(3, 6, 3, bias=False), nn.BatchNorm2d(6)
        self.second, self.second_norm = (
            nn.Conv2d(6, 6, 3, padding=1, groups=3),
            nn.BatchNorm2d(6, affine=False),
        )
        self.product, self.product_norm = nn.Linear(6, 5), nn.BatchNorm1d(5)
        self.last, self.last_norm = nn.Linear(5, 4, bias=False), nn.BatchNorm1d(4)
        generator = torch.Generator().manual_seed(0)
        for tensor in self.state_dict().values():
            if tensor.is_floating_point():
                tensor.copy_(torch.rand(tensor.shape, generator=generator) + 0.1)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.first_norm(self.first(x))), 2)
        y = self.second_norm(self.second(x)) + x
        z = self.product_norm(self.product(y.mean((2, 3))))
        return self.last_norm(self.last(z)), y, torch.cat([x, y], 1).flatten(2).transpose(1, 2)


@pytest.fixture
def model():
    return Normed().eval().requires_grad_(False)


def images():
    return torch.randn(2, 3, 12, 12, generator=torch.Generator().manual_seed(0))


def check(compiled, model, x):
    torch.testing.assert_close(
        compiled(x), copy.deepcopy(model)(x), check_stride=True, rtol=1e-4, atol=1e-4
    )


@pytest.fixture
def everywhere(monkeypatch):
    """Convolutions are made channels-last on the CPU too. How many were."""
    counts = []
    original = channels_last.to_channels_last
    monkeypatch.setattr(
        native, "to_channels_last", lambda graph: counts.append(original(graph, always=True))
    )
    return counts


WAYS = {
    "freezing": {"freezing": True, "layout_optimization": False},
    "layout": {"layout_optimization": True},
    "both": {"freezing": True, "layout_optimization": True},
}


@pytest.mark.parametrize(
    "apart", [(), ("cpu",)], ids=["bias in the convolution", "bias in a kernel"]
)
@pytest.mark.parametrize("way", WAYS)
def test_equals_eager(way, apart, model, everywhere, reports, monkeypatch):
    monkeypatch.setattr(batch_norms, "ADDS_APART", apart)
    compiled = framejit.compile(copy.deepcopy(model), backend="native", options=WAYS[way])
    for x in (images(), images() * 2, images().to(memory_format=torch.channels_last)):
        check(compiled, model, x)
    ops = [op for report in reports for kernel in report.kernels for op in kernel.ops]
    assert ("_native_batch_norm_legit_no_training" in ops) == (way == "layout")
    assert set(everywhere) == (set() if way == "freezing" else {2})


class Upsampled(nn.Module):
    """As parts of diffusion models: group norms and resized pictures between convolutions."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8)
        self.second, self.bare = nn.Conv2d(8, 6, 3), nn.GroupNorm(3, 6, affine=False)

    def forward(self, x):
        h = F.interpolate(F.silu(self.norm(self.first(x))), scale_factor=2.0)
        h = F.interpolate(self.bare(self.second(h)), size=(9, 7), mode="bilinear")
        return h + 1, h.flatten(1)


def test_group_norms_and_resized_pictures_keep_the_layout(everywhere, reports):
    model = Upsampled().eval().requires_grad_(False)
    compiled = framejit.compile(copy.deepcopy(model), backend="native")
    for x in (images(), images().to(memory_format=torch.channels_last)):
        check(compiled, model, x)
    assert set(everywhere) == {2}
    (report, *_) = reports
    turned = [kernel for kernel in report.kernels if set(kernel.ops) == {"clone"}]
    assert len(turned) <= 4, [kernel.ops for kernel in report.kernels]  # x, weights, results


def write(model):
    model.first.weight.mul_(2)


def write_a_statistic(model):
    model.second_norm.running_var.add_(1)


def give_other_memory(model):
    model.last.weight.data = torch.ones(4, 5)


def put_another_in_place(model):
    model.product.bias = nn.Parameter(torch.ones(5), requires_grad=False)


def load(model):
    model.load_state_dict({name: tensor * 0.5 for name, tensor in model.state_dict().items()})


@pytest.mark.parametrize(
    "change", [write, write_a_statistic, give_other_memory, put_another_in_place, load]
)
def test_changed_parameters_are_seen(change, model):
    mine = copy.deepcopy(model)
    compiled = framejit.compile(mine, backend="native", options={"freezing": True})
    check(compiled, model, images())
    change(mine)
    change(model)
    check(compiled, model, images())


def test_parameters_that_change_all_the_time(model):
    mine = copy.deepcopy(model)
    compiled = framejit.compile(mine, backend="native", options={"freezing": True})
    with pytest.warns(RuntimeWarning, match="freezing"):
        for _ in range(10):
            check(compiled, model, images())
            write(mine)
            write(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(compiled, model, images())


def test_a_weight_that_autocast_casts_is_cast_once(reports):
    layer, x = nn.Linear(8, 8).requires_grad_(False), torch.randn(4, 8)

    def function(x):
        with torch.autocast("cpu", torch.bfloat16):
            return layer(x)

    want = function(x)
    got = framejit.compile(function, backend="native", options={"freezing": True})(x)
    torch.testing.assert_close(got, want, check_stride=True)
    assert reports[0].host.count("run(") == 1, reports[0].host  # the argument's


def test_with_gradients_nothing_is_frozen(model):
    compiled = framejit.compile(
        copy.deepcopy(model),
        backend="native",
        options={"freezing": True, "layout_optimization": True},
    )
    gradients = []
    for run in (copy.deepcopy(model), compiled):
        x = images().requires_grad_()
        gradients.append(torch.autograd.grad(run(x)[0].sum(), x))
    torch.testing.assert_close(*gradients)


def test_norms_that_stay():
    def function(x, weight, mean, var):
        y = F.conv2d(x, weight)
        return F.batch_norm(y, mean, var) + y, F.batch_norm(
            F.conv_transpose2d(x, weight[:3, :3]), mean[:3], var[:3]
        )

    args = (images(), torch.randn(6, 3, 3, 3), torch.rand(6), torch.rand(6) + 1)
    got = framejit.compile(function, backend="native", options={"freezing": True})(*args)
    torch.testing.assert_close(got, function(*args), check_stride=True, rtol=1e-4, atol=1e-4)


def test_small_images_are_left_as_they_are(model):
    assert channels_last.to_channels_last(torch.fx.Graph()) == 0
    compiled = framejit.compile(
        copy.deepcopy(model), backend="native", options={"layout_optimization": True}
    )
    check(compiled, model, images())


def convolved(image, weight, device="cuda", dtype=torch.bfloat16, groups=1):
    """Stands for a convolution's node: what it reads and gives, and in how many groups."""

    def holding(shape):
        tensor = torch.empty(shape, dtype=dtype, device="meta")
        fake = SimpleNamespace(
            dtype=dtype, shape=tensor.shape, numel=tensor.numel, device=torch.device(device)
        )
        return SimpleNamespace(meta={"val": fake})

    result = holding((image[0], weight[0], *image[2:]))
    result.args = (holding(image), holding(weight), *[None] * 6, groups)
    result.target = channels_last.CONVOLUTION
    return result


LARGE, SMALL = ((8, 64, 56, 56), (64, 64, 3, 3)), ((1, 64, 4, 4), (64, 64, 3, 3))


@pytest.mark.parametrize(
    ("convolutions", "expected"),
    [
        ([convolved(*LARGE)], True), ([convolved(*SMALL)], False), ([convolved(*LARGE), convolved(*SMALL)], True),
        ([convolved(*LARGE, device="cpu")], False), ([convolved(*LARGE), convolved(*LARGE, groups=64)], True),
        ([convolved((8, 3, 56, 56), (64, 3, 3, 3))], False), ([convolved(*LARGE, dtype=torch.float64)], False),
    ],
)  # fmt: skip
def test_where_channels_last_is_expected_to_pay(convolutions, expected):
    assert channels_last.is_worthwhile(convolutions) is expected


def test_unknown_options_are_named():
    with pytest.raises(ValueError, match="freezing, layout_optimization"):
        framejit.compile(lambda x: x, backend="native", options={"frozen": True})
