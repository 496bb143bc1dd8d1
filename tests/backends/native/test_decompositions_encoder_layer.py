"""Layers of Transformer encoders in inference: native is as near to float64 as eager."""

from __future__ import annotations

import copy

import framejit
import pytest
import torch
from torch import nn


def layer(**how):
    torch.manual_seed(0)
    return nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, **how).eval()


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=str)
@pytest.mark.parametrize("norm_first", (False, True))
@pytest.mark.parametrize("activation", ("relu", "gelu"))
def test_as_exact_as_eager(activation, norm_first, dtype, reports):
    eager = layer(activation=activation, norm_first=norm_first).to(dtype)
    exact = copy.deepcopy(eager).double()
    x = torch.randn(2, 7, 32).to(dtype)
    with torch.no_grad():
        result = framejit.compile(copy.deepcopy(eager), backend="native")(x)
        expected = exact(x.double())
        allowed = 2 * (eager(x) - expected).abs().max()
        assert result.dtype == dtype and result.stride() == eager(x).stride()
    assert (result - expected).abs().max() <= allowed
    (report,) = reports
    assert "aten._transformer_encoder_layer_fwd.default" not in report.called


def test_a_mask_is_left_to_torch(reports):
    eager, x = layer(), torch.randn(2, 7, 32)
    mask = torch.triu(torch.ones(7, 7, dtype=torch.bool), 1)
    with torch.no_grad():
        compiled = framejit.compile(copy.deepcopy(eager), backend="native")
        torch.testing.assert_close(compiled(x, mask), eager(x, mask))
    assert any("aten._transformer_encoder_layer_fwd.default" in one.called for one in reports)
