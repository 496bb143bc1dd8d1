"""Random numbers of compiled graphs are eager's, whatever the strides of what they fill, and their
results lie in memory as eager's do."""

from __future__ import annotations

import framejit
import pytest
import torch
import torch.nn.functional as F

DRAWS = {
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.5), "feature_alpha_dropout": lambda x: F.feature_alpha_dropout(x, 0.5),
    "dropout": lambda x: F.dropout(x, 0.5), "dropout1d": lambda x: F.dropout1d(x, 0.5), "gumbel_softmax": F.gumbel_softmax,
    "rrelu": lambda x: F.rrelu(x, training=True), "bernoulli_": lambda x: torch.empty_like(x).bernoulli_(0.5) * x,
    "bernoulli_ of a copy": lambda x: (x + 0).bernoulli_(0.3), "normal_": lambda x: torch.empty_like(x).normal_() + x,
    "uniform_": lambda x: torch.empty_like(x).uniform_() + x, "exponential_": lambda x: torch.empty_like(x).exponential_().log() + x,
    "random_": lambda x: torch.empty_like(x).random_(100) + x, "rand_like": lambda x: torch.rand_like(x) + x,
    "normal": lambda x: torch.normal(x, x.abs() + 1), "poisson": lambda x: torch.poisson(x.abs()),
    "a view with gaps": lambda x: torch.zeros(6, 8, 10)[::2, ::2, ::2].normal_() + x,
    "a transposed tensor": lambda x: torch.zeros(5, 4, 3).transpose(0, 2).normal_() + x,
    "a row": lambda x: x + x.detach().clone()[1:2].normal_(), "gamma": lambda x: torch._standard_gamma(x.abs() + 1),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x, dropout_p=0.5),
    "init": lambda x: torch.nn.init.trunc_normal_(torch.empty_like(x)),
}  # fmt: skip
LAYOUTS = {
    "dense": lambda: torch.arange(60.0).reshape(3, 4, 5).div(50),
    "transposed": lambda: torch.arange(60.0).reshape(3, 5, 4).div(50).transpose(1, 2),
    "permuted": lambda: torch.arange(60.0).reshape(5, 4, 3).div(50).permute(2, 1, 0),
    "with gaps": lambda: torch.arange(120.0).reshape(3, 4, 10).div(50)[..., ::2],
    "expanded": lambda: torch.arange(5.0).expand(3, 4, 5),
}


@pytest.mark.parametrize("grad", [False, True], ids=["", "grad"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
@pytest.mark.parametrize("backend", ["aot_eager", "native"])
@pytest.mark.sweep(4)
def test_they_are_eagers(backend, draw, layout, grad):
    compiled = framejit.compile(draw, backend=backend)
    for _ in range(2):
        results, next_numbers = [], []
        for run in (draw, compiled):
            torch.manual_seed(3)
            results.append(run(LAYOUTS[layout]().requires_grad_(grad)))
            next_numbers.append(torch.rand(3))
        torch.testing.assert_close(results[1], results[0], rtol=1e-5, atol=1e-6)
        assert results[1].stride() == results[0].stride()
        assert torch.equal(*next_numbers)


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
def test_an_input_with_gaps_is_filled_as_in_eager(backend):
    def fill(x):
        return x.normal_() * 2

    wide, wanted = torch.zeros(6, 20), torch.zeros(6, 20)
    compiled = framejit.compile(fill, backend=backend)
    torch.manual_seed(3)
    got = compiled(wide[:, ::2])
    torch.manual_seed(3)
    assert torch.equal(got, fill(wanted[:, ::2])) and torch.equal(wide, wanted)


def test_numbers_drawn_before_an_operator_raises_stay_drawn():
    def run(a, b):
        views = b.chunk(2)
        drawn = torch.rand(3)
        a.add_(1)
        return views[0].abs(), drawn  # refused: the memory that it shares was written

    states = []
    for fn in (run, framejit.compile(run, backend="eager")):
        torch.manual_seed(3)
        memory = torch.ones(8)
        with pytest.raises(RuntimeError, match="modified inplace"):
            fn(memory[:4], memory[4:].detach().requires_grad_())
        states.append(torch.get_rng_state())
    assert torch.equal(*states)
