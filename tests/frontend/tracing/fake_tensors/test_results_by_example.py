"""Fake results by example, and those of indexing operators by rule, are laid out as eager's."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from framejit.frontend.tracing.fake_tensors import fake_results
from framejit.frontend.tracing.fake_tensors.fake_execution import CaptureFakeMode
from torch.utils._pytree import tree_leaves

AT = torch.tensor([[0], [1], [0], [1]])
CALLS = {
    "of one": lambda x, at: (x.isnan(), x.clamp(0, 1), x.clone(), x.sin_(), 2**x, x.nan_to_num()),
    "of two": lambda x, at: (x % 2, x // 2, x.lerp(x, 0.5), torch.where(x > 0, x, 1.0), x.atan2(x)),
    "of two dtypes": lambda x, at: (x + x.double(), x * (x > 0), x + x.int(), x.int() / 2, x + 1j),
    "broadcast": lambda x, at: (
        x + x[:1],
        x * x[0],
        x.masked_fill(x[:1] > 0, 0),
        x.clone().add_(x[:1]),
    ),
    "of numbers": lambda x, at: (x + torch.tensor(2.0, dtype=torch.float64), x[0, 0].exp()),
    "whole": lambda x, at: (
        x.sum(),
        x.prod(),
        x.amax(),
        x.argmax(),
        x.std(),
        x.norm(),
        (x > 0).all(),
    ),
    "rows": lambda x, at: (
        x.amax(-1),
        x.argmin(0),
        x.max(1),
        x.var(0),
        x.logsumexp(1),
        x.norm(dim=0),
    ),
    "kept": lambda x, at: (x.amax(1, keepdim=True), x.std(0, keepdim=True), x.any(1, keepdim=True)),
    "ints": lambda x, at: (x.int().sum(), x.int().prod(1), (x > 0).sum(0), x.int().amax(1)),
    "copies": lambda x, at: (
        x.double(),
        torch.zeros_like(x),
        torch.full_like(x, 2, dtype=torch.int32),
    ),
    "as channels last": lambda x, at: x[None, None].to(memory_format=torch.channels_last),
    "ordered": lambda x, at: (x.sort(), x.topk(2), x.flip(0), x.roll(1, 0), x.tril(), x.triu(1)),
    "larger": lambda x, at: (x.repeat(2, 1, 1), torch.stack([x, x], -1), F.pad(x, (1, 0, -1, 2))),
    "placed": lambda x, at: (x.gather(1, at), x.scatter(1, at, 2.0), x.scatter_add(1, at, x)),
    "indexed": lambda x, at: (x[at], x[at, at[:, 0]], x.index_add(0, at[:, 0], x), x[:, at]),
    "losses": lambda x, at: (F.mse_loss(x, x), F.smooth_l1_loss(x, x, reduction="none"), F.glu(x)),
    "negative log likelihood": lambda x, at: (
        F.nll_loss(x, at[:, 0]),
        F.nll_loss(x, at[:, 0], reduction="none"),
    ),
    "filled": lambda x, at: (x.fill_(2), x.zero_(), x.normal_(), x.fill_(torch.tensor(1.0))),
    "pooled": lambda x, at: (
        F.max_pool2d(image(x), 2, return_indices=True),
        F.avg_pool2d(image(x), 3, 1, 1),
        F.adaptive_avg_pool2d(image(x), (1, 2)),
        F.interpolate(image(x), scale_factor=2.0, mode="bilinear"),
    ),
}
LAYOUTS = {
    "contiguous": lambda: torch.rand(4, 4),
    "transposed": lambda: torch.rand(4, 4).t(),
    "expanded": lambda: torch.rand(4, 1).expand(4, 4).clone(memory_format=torch.preserve_format),
    "with gaps": lambda: torch.rand(4, 8)[:, ::2],
}


def image(x):
    """Two images of three channels, which are last where x is transposed."""
    images = x.expand(2, 3, 4, 4).clone(memory_format=torch.contiguous_format)
    return images if x.is_contiguous() else images.to(memory_format=torch.channels_last)


def facts(results):
    return [
        (tuple(one.shape), one.stride(), one.dtype, one.requires_grad)
        for one in tree_leaves(results)
    ]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("call", CALLS)
def test_results_are_eagers(call, layout, monkeypatch):
    monkeypatch.setattr(fake_results, "_results", {})
    x, mode = LAYOUTS[layout](), CaptureFakeMode()
    fake, at = (mode.from_tensor(one, static_shapes=True) for one in (x, AT))
    before = torch.get_rng_state()
    with mode:
        found = [facts(CALLS[call](fake.clone(), at)) for _ in range(2)]  # made, and cached
    assert torch.equal(torch.get_rng_state(), before)
    assert found == [facts(CALLS[call](x.clone(), AT))] * 2


def refuses(call):
    mode = CaptureFakeMode()
    x = mode.from_tensor(torch.rand(4, 4), static_shapes=True)
    with mode, pytest.raises((RuntimeError, IndexError)) as raised:
        call(x)
    return type(raised.value), str(raised.value)


REFUSED = {
    "sizes": lambda x: x + x[:, :3],
    "in place, larger": lambda x: x[0].clone().add_(x),
    "in place, of ints": lambda x: x.int().add_(0.5),
    "dimension": lambda x: x.amax(2),
    "too few": lambda x: x.topk(5),
    "gather of floats": lambda x: x.gather(1, x),
    "stack of two": lambda x: torch.stack([x, x[0]]),
    "pad of too much": lambda x: F.pad(x, (-5, 0)),
    "repeat too few": lambda x: x.repeat(2),
    "no pixel": lambda x: F.max_pool2d(x[None, None], 5),
}


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_what_torch_refuses_is_refused_in_its_words(call, monkeypatch):
    found = refuses(call)
    monkeypatch.setattr(fake_results, "is_cacheable", lambda func: False)
    assert found == refuses(call)
