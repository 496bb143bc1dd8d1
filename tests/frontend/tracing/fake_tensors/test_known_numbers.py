"""Numbers that vary, as arguments of operators that take C's doubles and ints: at most two compiles, and eager's results, errors and
effects."""

from __future__ import annotations

import framejit
import pytest
import torch
import torch.nn.functional as F

CALLS = {
    "dropout": lambda x, p: F.dropout(x, p), "dropout in evaluation": lambda x, p: F.dropout(x, p, training=False),
    "torch.dropout": lambda x, p: torch.dropout(x, p, True), "alpha_dropout": lambda x, p: F.alpha_dropout(x, p, True),
    "dropout2d": lambda x, p: F.dropout2d(x[None, None], p), "bernoulli": lambda x, p: torch.bernoulli(x, p),
    "layer_norm": lambda x, p: F.layer_norm(x, (8,), eps=p), "group_norm": lambda x, p: F.group_norm(x, 2, eps=p),
    "batch_norm": lambda x, p: F.batch_norm(x, None, None, training=True, momentum=p, eps=p),
    "rms_norm": lambda x, p: F.rms_norm(x, (8,), eps=p), "cosine_similarity": lambda x, p: F.cosine_similarity(x, x + 1, eps=p),
    "smooth_l1_loss": lambda x, p: F.smooth_l1_loss(x, x + 0.5, beta=p), "huber_loss": lambda x, p: F.huber_loss(x, x + 0.5, delta=p),
    "cross_entropy": lambda x, p: F.cross_entropy(x, torch.zeros(4, dtype=torch.long), label_smoothing=p),
    "margin_ranking_loss": lambda x, p: F.margin_ranking_loss(x, x + 1, torch.ones(4, 8), margin=p),
    "triplet_margin_loss": lambda x, p: F.triplet_margin_loss(x, x + 1, x - 1, margin=p),
    "normal": lambda x, p: x + torch.normal(0.0, p, (4, 8)), "normal_": lambda x, p: x.clone().normal_(0, p),
    "uniform_": lambda x, p: x.clone().uniform_(-p, p), "logit": lambda x, p: torch.logit(x.sigmoid(), eps=p / 4),
    "isclose": lambda x, p: torch.isclose(x, x + 0.3, atol=p), "cdist": lambda x, p: torch.cdist(x, x + 1, p=p),
    "quantile": lambda x, p: x.quantile(p), "attention": lambda x, p: F.scaled_dot_product_attention(x[None], x[None], x[None], scale=p),
    "attention with dropout": lambda x, p: F.scaled_dot_product_attention(x[None], x[None], x[None], dropout_p=p),
    "nan_to_num": lambda x, p: x.log().nan_to_num(p, posinf=p), "trapezoid": lambda x, p: torch.trapezoid(x, dx=p), "pad": lambda x, p: F.pad(x, (1, 2), value=p),
}  # fmt: skip
X = torch.arange(32.0).view(4, 8).sin()


def outcome(fn, x, p, met):
    torch.manual_seed(3)
    try:
        result = fn(x, p, met)
    except (ValueError, RuntimeError) as error:
        result = type(error), str(error)
    return result, torch.get_rng_state()


def same(one, other):
    if isinstance(other, torch.Tensor):
        torch.testing.assert_close(one, other, equal_nan=True)
    else:
        assert one == other


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("name", CALLS)
def test_two_compiles(name, backend):
    call = CALLS[name]

    def f(x, p, met):
        met.append("before")
        x = call(x, p)
        met.append("behind")
        return x

    handle, ours, eagers = framejit.compile(f, backend=backend), [], []
    for p in (0.1, 0.2, 0.35, 0.5, 0.55, 0.9):
        got, wanted = outcome(handle, X, p, ours), outcome(f, X, p, eagers)
        same(got[0], wanted[0])
        same(got[1], wanted[1])
    assert handle.framejit.compiles <= 2
    for p in (0.0, 1.0, -0.5, 1.5, 2.5, 0.25):
        got, wanted = outcome(handle, X, p, ours), outcome(f, X, p, eagers)
        same(got[0], wanted[0])
        same(got[1], wanted[1])
    assert ours == eagers


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_gradients(backend):
    def f(x, p):
        return F.layer_norm(F.dropout(x, p), (8,), eps=p) * 2

    handle = framejit.compile(f, backend=backend)
    for p in (0.1, 0.2, 0.35, 0.5):
        grads = []
        for fn in (handle, f):
            torch.manual_seed(1)
            x = X.clone().requires_grad_()
            (fn(x, p) * torch.arange(8.0)).sum().backward()
            grads.append(x.grad)
        torch.testing.assert_close(*grads)
    assert handle.framejit.compiles <= 2


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("name", ["attention", "nan_to_num", "trapezoid", "pad"])
def test_any_float_is_treated_alike(name, backend):
    call = CALLS[name]
    handle = framejit.compile(lambda x, p: call(x, p) + 1, backend=backend)
    for p in (0.5, 0.7, 1.0, 0.0, -1.5, 3.0, 1e-9):
        torch.testing.assert_close(handle(X, p), call(X, p) + 1, equal_nan=True)
    assert handle.framejit.compiles <= 3, handle.framejit.explain()  # torch's 0.0 has no symbol


INT_CALLS = {
    "std": lambda x, n: x.std(correction=n), "var of rows": lambda x, n: torch.var(x, 1, correction=n, keepdim=True),
    "std_mean": lambda x, n: sum(torch.std_mean(x, correction=n)), "var_mean": lambda x, n: sum(torch.var_mean(x, 0, correction=n)), "cov": lambda x, n: torch.cov(x.repeat(1, 9), correction=n),
    "pad": lambda x, n: F.pad(x, (1, 2), value=n),
    "round": lambda x, n: x.round(decimals=n) + torch.round(x, decimals=n), "linspace": lambda x, n: torch.linspace(0, 1, n).sum() + x,
    "linspace of floats": lambda x, n: torch.linspace(n / 4, n * 0.5, steps=n, dtype=torch.float64) * 2, "logspace": lambda x, n: torch.logspace(0.1, 1.0, n),
    "hann_window": lambda x, n: torch.hann_window(n), "other windows": lambda x, n: torch.hamming_window(n, False) + torch.blackman_window(n) * torch.bartlett_window(n),
    "kaiser_window": lambda x, n: torch.kaiser_window(n, True, 9.0), "one_hot": lambda x, n: F.one_hot(torch.arange(6).view(2, 3) % 3, n),
    "one_hot by name": lambda x, n: F.one_hot((x > 0).long(), num_classes=n), "topk": lambda x, n: x.flatten().topk(n).values,
    "rows of linspace": lambda x, n: x.flatten()[:n] * torch.linspace(-1, 1, n), "linspace of a size": lambda x, n: torch.linspace(0, 1, x.flatten()[:n].shape[0]) + 1,
}  # fmt: skip


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("name", INT_CALLS)
def test_two_compiles_for_ints(name, backend):
    call = INT_CALLS[name]

    def f(x, n, met):
        met.append("before")
        x = call(x, n)
        met.append("behind")
        return x

    handle, ours, eagers = framejit.compile(f, backend=backend), [], []
    for n in (3, 4, 5, 7, 9, 12):
        got, wanted = outcome(handle, X, n, ours), outcome(f, X, n, eagers)
        same(got[0], wanted[0])
        if isinstance(wanted[0], torch.Tensor):
            assert (got[0].dtype, got[0].stride()) == (wanted[0].dtype, wanted[0].stride())
    assert handle.framejit.compiles <= 2, handle.framejit.explain()
    for n in (1, 0, -1, 2, 3):
        got, wanted = outcome(handle, X, n, ours), outcome(f, X, n, eagers)
        same(got[0], wanted[0])
    assert ours == eagers


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native", "inductor"])
def test_gradients_pass_lengths_that_vary(backend):
    def f(x, w):
        n = x.shape[0]
        y = torch.relu(x @ w + torch.linspace(0, 1, n)[:, None])
        y = y * torch.hann_window(n, requires_grad=False)[:, None]
        return (y * F.one_hot(torch.arange(3), n).sum(1)).sin()

    handle = framejit.compile(f, backend=backend)
    for n in (4, 6, 7, 9):
        x, grads = X.flatten()[: 3 * n].view(n, 3), []
        for fn in (handle, f):
            w = X[:3, :3].clone().requires_grad_()
            fn(x, w).sum().backward()
            grads.append(w.grad)
        torch.testing.assert_close(*grads)
    assert handle.framejit.compiles <= 2, handle.framejit.explain()


def test_a_window_that_wants_a_gradient():
    def f(n):
        return torch.linspace(0, 1, n, requires_grad=True) * 2

    handle = framejit.compile(f, backend="eager")
    for n in (3, 4, 5):
        assert handle(n).requires_grad and handle(n).equal(f(n))


def test_a_number_read_from_a_tensor_breaks_with_its_own_reason():
    def f(x, p):
        return F.dropout(x, p.item()) + 1

    with framejit.config.patch(capture_scalar_outputs=True):
        handle = framejit.compile(f, backend="eager")
    for p in (0.1, 0.2):
        torch.manual_seed(0)
        got = handle(X, torch.tensor(p))
        torch.manual_seed(0)
        assert torch.equal(got, f(X, torch.tensor(p)))
    assert {one.id for one in handle.framejit.explain().breaks} == {"data-dependent-value"}
