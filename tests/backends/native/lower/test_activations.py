"""Activations that become a product's last step, and those that must not."""

from __future__ import annotations

import framejit
import pytest
import torch
from framejit.backends.native.lower import activations, padded_products
from torch.nn import functional as F

JOINED = {
    "relu": lambda x, w, b: F.linear(x, w, b).relu(),
    "gelu by tanh": lambda x, w, b: F.gelu(F.linear(x, w, b), approximate="tanh"),
    "by addmm": lambda x, w, b: torch.relu(torch.addmm(b, x[0], w.t())),
    "two layers": lambda x, w, b: F.linear(F.linear(x, w, b).relu(), w.t()).relu(),
}
LEFT = {
    "gelu by erf": lambda x, w, b: F.gelu(F.linear(x, w, b)),
    "no bias": lambda x, w, b: F.linear(x, w).relu(),
    "also used before": lambda x, w, b: (lambda y: y.relu() + y)(F.linear(x, w, b)),
    "also returned before": lambda x, w, b: (lambda y: (y.relu(), y))(F.linear(x, w, b)),
    "a matrix added": lambda x, w, b: torch.relu(torch.addmm(x[0] @ w.t(), x[0], w.t())),
    "scaled": lambda x, w, b: torch.relu(torch.addmm(b, x[0], w.t(), alpha=2)),
}
JOINED_IN_TRAINING = {"relu", "by addmm", "two layers"}  # gelu's gradient needs what is before it


def arguments(device):
    generator = torch.Generator().manual_seed(0)
    made = (torch.randn(shape, generator=generator) for shape in ((3, 8, 16), (24, 16), (24,)))
    return [tensor.to(device) for tensor in made]


@pytest.fixture
def cpu(monkeypatch):
    """The CPU counts as a device that joins them; its operator does, too."""
    for module in (activations, padded_products):
        monkeypatch.setattr(module, "DEVICES", ("cpu",))


def is_joined(compiled):
    return "_addmm_activation" in compiled.framejit.explain().details()


@pytest.mark.parametrize("name", [*JOINED, *LEFT])
def test_joined_or_left(name, cpu):
    args = arguments("cpu")
    function = {**JOINED, **LEFT}[name]
    loose = 1e-3 if name == "gelu by tanh" else 1e-5  # the CPU's operator has erf's form
    compiled = framejit.compile(function, backend="native")
    torch.testing.assert_close(
        compiled(*args), function(*args), check_stride=True, atol=loose, rtol=1e-5
    )
    assert is_joined(compiled) == (name in JOINED)


@pytest.mark.parametrize("name", [*JOINED, *LEFT])
def test_in_training(name, cpu):
    function = {**JOINED, **LEFT}[name]
    args = [tensor.requires_grad_() for tensor in arguments("cpu")]
    compiled = framejit.compile(function, backend="native")
    gradients = []
    for run in (compiled, function):
        result = run(*args)
        total = sum(item.sum() for item in (result if isinstance(result, tuple) else (result,)))
        gradients.append(torch.autograd.grad(total, args, allow_unused=True))
    torch.testing.assert_close(*gradients, atol=1e-4, rtol=1e-4)
    assert is_joined(compiled) == (name in JOINED_IN_TRAINING)


def test_not_where_nan_would_be_lost(cpu, monkeypatch):
    compiled = framejit.compile(JOINED["relu"], backend="native")

    def without_nan(bias, left, right, *, use_gelu):
        return (left @ right).nan_to_num()

    monkeypatch.setattr(activations, "PRODUCT", without_nan)
    torch.testing.assert_close(compiled(*arguments("cpu")), JOINED["relu"](*arguments("cpu")))
    assert not is_joined(compiled)


def test_not_on_the_cpu():
    compiled = framejit.compile(JOINED["relu"], backend="native")
    compiled(*arguments("cpu"))
    assert not is_joined(compiled)


@pytest.mark.gpu
@pytest.mark.parametrize("name", JOINED)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_on_the_gpu(name, dtype):
    args = [tensor.to(dtype) for tensor in arguments("cuda")]
    compiled = framejit.compile(JOINED[name], backend="native")
    loose = (
        2e-2 if dtype == torch.bfloat16 else 1e-4
    )  # eager rounds the product before the activation
    torch.testing.assert_close(
        compiled(*args), JOINED[name](*args), check_stride=True, atol=loose, rtol=loose
    )
    assert is_joined(compiled) or dtype == torch.bfloat16


@pytest.mark.gpu
@pytest.mark.parametrize("sizes", [(64, 100, 50), (33, 7, 5), (256, 512, 512)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_nan_gets_through(sizes, dtype):
    rows, terms, columns = sizes
    x, w, b = (
        torch.randn(size, device="cuda", dtype=dtype)
        for size in ((rows, terms), (columns, terms), (columns,))
    )
    x[3, 2] = torch.nan
    got = framejit.compile(JOINED["relu"], backend="native")(x, w, b)
    assert got[3].isnan().all() and not got[4].isnan().any()
