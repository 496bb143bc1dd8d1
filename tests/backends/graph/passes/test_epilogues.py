"""Activations that become a product's last step, and those that must not."""

from __future__ import annotations

import framejit
import pytest
import torch
from framejit.backends.graph.passes import epilogues
from framejit.backends.native import backend as native
from torch.nn import functional as F

JOINED = {
    "relu": lambda x, w, b: F.linear(x, w, b).relu(),
    "gelu by tanh": lambda x, w, b: F.gelu(F.linear(x, w, b), approximate="tanh"),
    "by addmm": lambda x, w, b: torch.relu(torch.addmm(b, x[0], w.t())),
}
LEFT = {
    "gelu by erf": lambda x, w, b: F.gelu(F.linear(x, w, b)),
    "no bias": lambda x, w, b: F.linear(x, w).relu(),
    "also used before": lambda x, w, b: (lambda y: y.relu() + y)(F.linear(x, w, b)),
    "a matrix added": lambda x, w, b: torch.relu(torch.addmm(x[0] @ w.t(), x[0], w.t())),
    "scaled": lambda x, w, b: torch.relu(torch.addmm(b, x[0], w.t(), alpha=2)),
}


def arguments(device):
    generator = torch.Generator().manual_seed(0)
    made = (torch.randn(shape, generator=generator) for shape in ((3, 8, 16), (24, 16), (24,)))
    return [tensor.to(device) for tensor in made]


@pytest.mark.parametrize("name", [*JOINED, *LEFT])
def test_joined_or_left(name, monkeypatch):
    counts = []
    original = epilogues.join_epilogues
    monkeypatch.setattr(native, "join_epilogues", lambda gm: counts.append(original(gm, ("cpu",))))
    args = arguments("cpu")
    function = {**JOINED, **LEFT}[name]
    loose = 1e-3 if name == "gelu by tanh" else 1e-5  # the CPU's operator has erf's form
    got = framejit.compile(function, backend="native")(*args)
    torch.testing.assert_close(got, function(*args), check_stride=True, atol=loose, rtol=1e-5)
    assert counts == [name in JOINED]


def test_not_on_the_cpu(monkeypatch):
    counts = []
    original = epilogues.join_epilogues
    monkeypatch.setattr(native, "join_epilogues", lambda gm: counts.append(original(gm)))
    framejit.compile(JOINED["relu"], backend="native")(*arguments("cpu"))
    assert counts == [0]


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
    assert "_addmm_activation" in str(compiled.framejit.explain())
