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


def inside_vmap(x):
    def rows(q):
        return torch.vmap(lambda k: (k >= 0) & (q >= 0))(torch.arange(8))

    return torch.vmap(rows)(torch.arange(8))


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


MASKS = [
    (full, True),
    (both, True),
    (causal, False),
    (inside_vmap, False),
    (from_input, False),
    (written_to, False),
    (random, False),
    (additive, False),
]


@pytest.mark.parametrize("by_keyword", [True, False])
@pytest.mark.parametrize(
    ("make", "dropped"), MASKS, ids=lambda value: getattr(value, "__name__", None)
)
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


def rows(q):
    """With a mask of this form the CPU's attention lays its result out otherwise than without
    one."""
    return attention(q, q, q, attn_mask=torch.ones(1, 8, 8, dtype=torch.bool))


def joined(q):
    heads = rows(q).transpose(1, 2).contiguous()
    return heads.reshape(2, 8, -1).contiguous().relu()


def seen_as_it_lies(q):
    return rows(q).view(2, 2, 32)


def written(q):
    return rows(q).mul_(2).transpose(1, 2).reshape(2, 8, -1) * 1


@pytest.mark.parametrize(
    ("f", "dropped"), [(joined, True), (rows, False), (seen_as_it_lies, False), (written, False)]
)
def test_a_mask_stays_where_the_result_would_lie_otherwise_in_memory(f, dropped):
    graphs = []

    def backend(gm, example_inputs):
        graphs.append(gm.graph)
        return gm.forward

    x = torch.randn(2, 8, 2, 4).transpose(1, 2).requires_grad_()
    want, got = f(x), framejit.compile(f, backend=backend, fullgraph=True)(x)
    assert torch.allclose(got, want, atol=1e-6)
    assert got.stride() == want.stride()
    fakes = {
        node: node.meta["example_value"]
        for node in graphs[0].nodes
        if node.op.startswith("call") and node.users
    }
    (at,) = (node for node in fakes if node.target is attention)
    assert (at.kwargs["attn_mask"] is None) == dropped
    assert all(fake.requires_grad for fake in fakes.values() if fake.is_floating_point())


def test_values_that_lie_otherwise_without_the_mask_are_known_to():
    strides = {}

    class Told(torch.fx.Interpreter):
        def run_node(self, node):
            value = super().run_node(node)
            if isinstance(value, torch.Tensor) and node.users:
                strides[node] = value.stride(), node.meta["example_value"].stride()
            return value

    def backend(gm, example_inputs):
        Told(gm).run(*example_inputs)
        return gm.forward

    x = torch.randn(2, 8, 2, 4).transpose(1, 2)
    framejit.compile(joined, backend=backend, fullgraph=True)(x)
    assert strides
    assert all(real == fake for real, fake in strides.values())


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_a_mask_whose_size_depends_on_values(backend):
    def f(x, counts):
        rows = x.repeat_interleave(counts, 0)
        group = torch.arange(rows.shape[0]) // 2
        together = group[:, None] == group
        return attention(rows[None], rows[None], rows[None], attn_mask=together[None])

    compiled = framejit.compile(f, backend=backend)
    for counts in ([1, 2, 3, 0], [0, 1, 1, 0], [1, 1, 1, 1]):
        x, counts = torch.randn(4, 8), torch.tensor(counts)
        torch.testing.assert_close(compiled(x, counts), f(x, counts))
    assert not compiled.framejit.explain().breaks
