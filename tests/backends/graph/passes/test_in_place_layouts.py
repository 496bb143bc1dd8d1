"""In-place operators keep a tensor's strides, also for what is computed from it."""

from __future__ import annotations

import framejit
import pytest
import torch

INDEX, SMALL, PLACES = (
    torch.tensor([0, 1]),
    torch.arange(6.0).view(2, 3),
    torch.zeros(4, 3, dtype=torch.long),
)
OTHER, MASK = torch.arange(12.0).view(4, 3) / 2 + 0.5, torch.arange(12).view(4, 3) % 2 == 0
CALLS = {
    "masked_fill_": lambda x: x.masked_fill_(x > 5, 5),
    "masked_scatter_": lambda x: x.masked_scatter_(MASK, OTHER),
    "index_fill_": lambda x: x.index_fill_(0, INDEX, 2),
    "index_add_": lambda x: x.index_add_(0, INDEX, SMALL),
    "index_copy_": lambda x: x.index_copy_(0, INDEX, SMALL),
    "index_reduce_": lambda x: x.index_reduce_(0, INDEX, SMALL, "prod"),
    "scatter_": lambda x: x.scatter_(0, PLACES, 2.0),
    "scatter_add_": lambda x: x.scatter_add_(0, PLACES, OTHER),
    "scatter_reduce_": lambda x: x.scatter_reduce_(0, PLACES, OTHER, "sum"),
    "cumsum_": lambda x: x.cumsum_(0),
    "cumprod_": lambda x: x.cumprod_(1),
    "renorm_": lambda x: x.renorm_(2, 0, 1),
    "tril_": lambda x: x.tril_(),
    "triu_": lambda x: x.triu_(),
    "addmm_": lambda x: x.addmm_(OTHER[:, :3], OTHER[:3]),
    "mvlgamma_": lambda x: x.add_(1).mvlgamma_(1),
    "floor_divide_": lambda x: x.floor_divide_(OTHER),
    "xlogy_": lambda x: x.xlogy_(OTHER),
    "copysign_": lambda x: x.copysign_(-OTHER),
}


EVERY = [
    (backend, name) for backend in ("eager", "aot_eager", "native", "torchscript") for name in CALLS
] + [("inductor", "cumsum_")]


@pytest.mark.parametrize(("backend", "name"), EVERY)
def test_strides_of_what_is_made_of_a_transposed_tensor(backend, name):
    call = CALLS[name]

    def f(x):
        call(x)
        return x * 1, x.clone(), x.reshape(-1)[1:]

    found = []
    for fn in (f, framejit.compile(f, backend=backend)):
        base = torch.arange(12.0).view(3, 4)
        results = fn(base.t())
        found.append([(item.stride(), item.tolist()) for item in (*results, base)])
    assert found[0] == found[1]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("name", ["masked_fill_", "index_add_", "cumsum_", "tril_", "addmm_"])
@pytest.mark.parametrize("leaf", [False, True], ids=["history", "inside"])
def test_gradients_through_them(leaf, name, backend):
    call = CALLS[name]

    def f(x):
        y = (x * 2).t() if leaf else x
        call(y)
        return y * y

    found = []
    for fn in (f, framejit.compile(f, backend=backend)):
        start = torch.arange(12.0, requires_grad=True)
        result = fn(start.view(3, 4) * 1 if leaf else (start.view(3, 4) * 1).t())
        (grad,) = torch.autograd.grad(result.sum(), start)
        found.append((result.stride(), result.tolist(), grad.tolist()))
    assert found[0] == found[1]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_bits_of_a_transposed_tensor_that_was_set_to_zero(backend):
    """contiguous() of them copies, as its tensor is not contiguous."""

    def f(x):
        x.zero_()
        return x.view(torch.int32).contiguous(), x.clone().T.view(-1)

    found = []
    for fn in (f, framejit.compile(f, backend=backend)):
        results = fn(torch.arange(12.0).view(3, 4).t())
        found.append([(item.stride(), item.tolist()) for item in results])
    assert found[0] == found[1]


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
@pytest.mark.parametrize("shape", [(1, 6, 1, 4), (2, 1, 5, 4), (1, 1, 1, 6, 4), (1, 6, 1, 2, 4)])
def test_batch_norms_of_flat_images_are_laid_out_channels_last(shape, backend):
    """Several formats fit strides of dimensions of size 1."""

    def normalize(x):
        return torch.nn.functional.batch_norm(x, None, None, training=True)

    x = torch.randn(shape).transpose(1, -1)
    got, want = framejit.compile(normalize, backend=backend)(x), normalize(x)
    long = [number for number, size in enumerate(want.shape) if size > 1]
    assert [got.stride(number) for number in long] == [want.stride(number) for number in long]
    torch.testing.assert_close(got, want)
