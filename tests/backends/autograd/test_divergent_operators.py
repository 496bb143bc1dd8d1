"""Operators whose gradients a trace has otherwise than eager.

Floats that vary, for operators whose backward pass in torch reads them as numbers: a training
loop compiles twice, however many floats it meets, and has eager's results and gradients."""

import framejit
import pytest
import torch
from torch.nn import functional as F

OPERATORS = {
    "lerp": lambda x, y, s: torch.lerp(x, y, s),
    "lerp_": lambda x, y, s: x.sin().lerp_(y, s),
    "pow": lambda x, y, s: x.abs() ** s,
    "pow_": lambda x, y, s: x.abs().pow_(s),
    "power in place": lambda x, y, s: in_place_power(x, s),
    "power of a number": lambda x, y, s: s**x,
    "celu": lambda x, y, s: F.celu(x, s),
    "norm": lambda x, y, s: x.norm(p=s),
    "vector_norm": lambda x, y, s: torch.linalg.vector_norm(x, s),
    "dist": lambda x, y, s: torch.dist(x, y, s),
    "alpha of add": lambda x, y, s: torch.add(x, y, alpha=s),
    "addcmul": lambda x, y, s: torch.addcmul(x, x, y, value=s),
    "softplus": lambda x, y, s: F.softplus(x, s),
    "clamp": lambda x, y, s: x.clamp(-s, s),
    "huber_loss": lambda x, y, s: F.huber_loss(x, y, delta=s),
    "a temperature": lambda x, y, s: (x / s).softmax(-1) * y,
}


def in_place_power(x, s):
    y = x.abs()
    y **= s
    return y


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.sweep(2)
def test_floats_that_vary_in_training(name):
    operator = OPERATORS[name]

    def f(x, y, s):
        return (operator(x.cos(), y, s) * 2).sum()

    compiled = framejit.compile(f, backend="native")
    for number in range(5):
        torch.manual_seed(number)
        x, y, s = torch.randn(4, 4), torch.randn(4, 4), 0.3 + 0.17 * number
        one, other = x.clone().requires_grad_(), x.clone().requires_grad_()
        wanted, found = f(one, y, s), compiled(other, y, s)
        wanted.backward()
        found.backward()
        torch.testing.assert_close(found, wanted)
        torch.testing.assert_close(other.grad, one.grad)
    assert compiled.framejit.compiles == 2


IDS = torch.tensor([0, 3, 3, 1])
SPARSE = {
    "an input": lambda table: F.embedding(IDS, table, sparse=True),
    "a renormed input": lambda table: F.embedding(IDS, table, sparse=True, max_norm=0.5),
    "a result": lambda table: F.embedding(IDS, table * 2, sparse=True),
    "weighted bags": lambda table: F.embedding_bag(
        IDS[None], table, sparse=True, mode="sum", per_sample_weights=torch.ones(1, 4)
    ),
    "gathered from a result": lambda table: (table * 2).gather(0, IDS[:, None], sparse_grad=True),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("case", SPARSE)
def test_sparse_gradients(case):
    def f(table):
        return SPARSE[case](table).sin() * 2

    grads = []
    for function in (f, framejit.compile(f, backend="native")):
        torch.manual_seed(0)
        table = torch.randn(5, 3).requires_grad_()
        function(table).sum().backward()
        grads.append(table.grad)
    wanted, found = grads
    assert (wanted.layout, found.layout) == (torch.sparse_coo, torch.sparse_coo)
    torch.testing.assert_close(found.to_dense(), wanted.to_dense())


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_images_of_bytes_and_of_varying_sizes(mode):
    def enlarge(image, height):
        return F.interpolate(image + 1, size=(height, 9), mode=mode) * 2

    compiled = framejit.compile(enlarge, backend="native", dynamic=True)
    for number in range(4):
        torch.manual_seed(number)
        image = torch.randint(0, 255, (1, 5, 5 + number, 7), dtype=torch.uint8)
        assert compiled(image, 6 + number).equal(enlarge(image, 6 + number))
