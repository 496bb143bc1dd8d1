"""Attention masks that are known to mask nothing go; every other mask stays."""
import framejit
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as attention


def full(x):
    return torch.arange(8)[:, None] >= torch.zeros(8, dtype=torch.long)


def both(x):
    return full(x) & torch.ones(8, dtype=torch.bool).expand(8, 8)


def causal(x):
    return torch.arange(8)[:, None] >= torch.arange(8)[None, :]


def from_input(x):
    return x[0, 0, :, :1].expand(8, 8) > -1e9


def written_to(x):
    mask = torch.ones(8, 8, dtype=torch.bool)
    mask[0, 1:] = False
    return mask


def random(x):
    return torch.rand(8, 8) > -1


def additive(x):
    return torch.zeros(8, 8)


MASKS = [(full, True), (both, True), (causal, False), (from_input, False), (written_to, False), (random, False), (additive, False)]


@pytest.mark.parametrize("by_keyword", [True, False])
@pytest.mark.parametrize(("make", "dropped"), MASKS, ids=lambda value: getattr(value, "__name__", None))
def test_only_a_mask_known_to_be_full_is_dropped(make, dropped, by_keyword):
    seen = []

    def backend(gm, example_inputs):
        (node,) = (n for n in gm.graph.nodes if n.target is attention)
        seen.append((node.args + (node.kwargs.get("attn_mask"),))[3])
        return gm.forward

    def f(x):
        return attention(x, x, x, attn_mask=make(x)) if by_keyword else attention(x, x, x, make(x))

    x = torch.randn(2, 2, 8, 4)
    torch.manual_seed(0)
    want = f(x)
    torch.manual_seed(0)
    got = framejit.compile(f, backend=backend, fullgraph=True)(x)
    assert torch.allclose(got, want, atol=1e-6)
    assert [mask is None for mask in seen] == [dropped]
