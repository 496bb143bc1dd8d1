"""Which graphs the autotuner may try: the graphs inside a custom function count, too."""

from __future__ import annotations

import framejit
import pytest
import torch
from framejit.backends.graph.supported import reason_not_to_try


@framejit.allow_in_graph
def unknown(x):
    return x.cos()


class InForward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return unknown(x)

    @staticmethod
    def backward(ctx, grad):
        return grad


class InBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.cos()

    @staticmethod
    def backward(ctx, grad):
        return unknown(grad)


class Nowhere(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.cos()

    @staticmethod
    def backward(ctx, grad):
        return grad


@pytest.mark.parametrize(
    ("function", "tried"), [(InForward, False), (InBackward, False), (Nowhere, True)]
)
def test_unknown_functions_inside_of_custom_functions(function, tried):
    reasons = []

    def keep(gm, examples):
        reasons.append(reason_not_to_try(gm))
        return gm.forward

    x = torch.ones(3, requires_grad=True)
    framejit.compile(lambda x: function.apply(x) + 1, backend=keep)(x)
    assert len(reasons) == 1
    assert reasons[0].startswith("nothing is known of unknown") is not tried
    assert bool(reasons[0]) is not tried
