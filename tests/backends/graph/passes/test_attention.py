"""Attention that is written out by hand is found, except where another operation is in between."""

from __future__ import annotations

import math

import framejit
import pytest
import torch
from framejit.backends.graph.passes import attention
from torch.nn import functional as F

FOUND = {
    "operators": lambda q, k, v: (
        torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]), -1) @ v
    ),
    "functions": lambda q, k, v: torch.matmul(
        F.dropout(F.softmax(torch.matmul(q, k.mT) * 0.125, dim=-1), 0.1, False), v
    ),
    "methods": lambda q, k, v: q.matmul(k.permute(0, 1, 3, 2)).softmax(-1).matmul(v),
    "scaled queries": lambda q, k, v: ((q * 0.3) @ k.mT).softmax(dim=3) @ v,
    "bmm": lambda q, k, v: torch.bmm(
        (2 * torch.bmm(q[0], k[0].transpose(1, 2))).softmax(dim=-1), v[0]
    ),
    "twice": lambda q, k, v: ((q @ k.mT).softmax(-1) @ v @ k.mT).softmax(-1) @ v,
}


def with_weights(q, k, v):
    weights = (q @ k.mT).softmax(-1)
    return weights @ v, weights


def written_between(q, k, v):
    scores = q @ k.mT
    v = v.clone()
    weights = scores.softmax(-1)
    v.add_(1)
    return weights @ v


LEFT = {
    "a mask": lambda q, k, v: (q @ k.mT + torch.zeros(160, 160)).softmax(-1) @ v,
    "the weights are a result": with_weights,
    "another dimension": lambda q, k, v: (q @ k.mT).softmax(-2) @ v,
    "another type": lambda q, k, v: (q @ k.mT).softmax(-1, dtype=torch.float64) @ v.double(),
    "broadcast": lambda q, k, v: (q @ k[:, :1].mT).softmax(-1) @ v,
    "a write in between": written_between,
    "short rows": lambda q, k, v: (q[:, :, :9] @ k[:, :, :9].mT).softmax(-1) @ v[:, :, :9],
}


@pytest.mark.parametrize("name", [*FOUND, *LEFT])
def test_found_or_left(name, monkeypatch):
    function, joined = {**FOUND, **LEFT}[name], name in FOUND
    seen = []
    original = attention.join_attention
    monkeypatch.setattr(
        "framejit.backends.native.backend.join_attention",
        lambda gm: seen.append((gm, original(gm))) or seen[-1][1],
    )
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 3, 160, 16, generator=generator) for _ in range(3))
    torch.testing.assert_close(
        framejit.compile(function, backend="native")(q, k, v), function(q, k, v), check_stride=True
    )
    ((before, after),) = seen
    calls = [node for node in after.graph.nodes if node.target is F.scaled_dot_product_attention]
    assert len(calls) == joined * (2 if name == "twice" else 1)
    assert (after is before) == (not joined)


def test_with_gradients_it_stays(monkeypatch):
    """Torch's kernels cannot be differentiated twice."""
    q = torch.randn(1, 2, 160, 8, dtype=torch.float64, requires_grad=True)
    function = FOUND["operators"]
    grads = []
    for run in (function, framejit.compile(function, backend="native")):
        (grad,) = torch.autograd.grad(run(q, q, q).square().sum(), q, create_graph=True)
        grads.append(torch.autograd.grad(grad.sum(), q)[0])
    torch.testing.assert_close(grads[1], grads[0])
