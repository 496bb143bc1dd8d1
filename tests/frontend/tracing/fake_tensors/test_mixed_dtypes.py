"""Operators on tensors of several dtypes: what the program has done before the error is not
lost."""

from __future__ import annotations

import operator

import pytest
import torch
import torch.nn.functional as F

from ...semantics.harness import check, strict_compile, vec

PRODUCTS = {
    "linear": lambda x, w: F.linear(x, w), "matmul": lambda x, w: x @ w, "method": lambda x, w: x.mm(w), "into": lambda x, w: operator.imatmul(x, w),
    "addmm": lambda x, w: torch.addmm(x, x, w), "bias": lambda x, w: F.linear(x, x, w[0]), "einsum": lambda x, w: torch.einsum("ij,jk->ik", x, w),
    "einsum of a list": lambda x, w: torch.einsum("ij,jk->ik", [x, w]), "conv": lambda x, w: F.conv1d(x[None], w[None]), "bmm": lambda x, w: x[None].bmm(w[None]),
    "norm": lambda x, w: F.layer_norm(x, (3,), w[0], w[0]), "batch norm": lambda x, w: F.batch_norm(x, w[0], w[0]),
    "index_add": lambda x, w: x.index_add(0, torch.tensor([1]), w[:1]), "index_copy": lambda x, w: torch.index_copy(x, 0, torch.tensor([1]), source=w[:1]),
}  # fmt: skip


@pytest.mark.parametrize("name", PRODUCTS)
def test_what_was_done_before_is_kept(name):
    product = PRODUCTS[name]

    def f(x, w, items):
        x.mul_(0.5)
        items.append(x.tanh())
        return product(x, w), items

    check(f, vec(3, 3), vec(3, 3).double(), [], graphs=None, breaks=None)
    check(f, vec(3, 3), vec(3, 3), [])


def test_autocast_makes_them_one():
    def f(x, w):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return x @ w, F.linear(x, w)

    check(f, vec(3, 3), vec(3, 3).bfloat16())


WIDE = {
    "batch norm": lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
    "instance norm": lambda x, w, b: F.instance_norm(x, None, None, w, b),
    "group norm": lambda x, w, b: F.group_norm(x, 2, w, b),
    "layer norm": lambda x, w, b: F.layer_norm(x.transpose(1, -1), (4,), w, b),
    "batch norm in autocast": lambda x, w, b: batch_norm_in_autocast(x, w, b),
}


def batch_norm_in_autocast(x, w, b):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return F.batch_norm(
            F.conv2d(x, torch.eye(4)[..., None, None]), None, None, w, b, training=True
        ).relu()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", WIDE)
@pytest.mark.sweep(2)
def test_gradients_of_norms_whose_parameters_are_wider_than_their_input(name, dtype):
    norm = WIDE[name]
    parameters = [
        torch.linspace(0.5, 2, 4).requires_grad_(),
        torch.linspace(-1, 1, 4).requires_grad_(),
    ]
    handle = strict_compile(norm, backend="native")
    for rows in (2, 3):
        x = (
            torch.randn(rows, 4, 5, 5, generator=torch.Generator().manual_seed(rows))
            .to(dtype)
            .requires_grad_()
        )
        runs = []
        for call in (norm, handle):
            result = call(x, *parameters)
            slopes = torch.linspace(0, 1, result.numel()).view(result.shape).to(result.dtype)
            runs.append([result, *torch.autograd.grad(result, [x, *parameters], slopes)])
        for mine, yours in zip(*runs, strict=True):
            assert mine.dtype == yours.dtype
            torch.testing.assert_close(
                yours, mine, rtol=0.03, atol=0.1
            )  # layer norms keep statistics rounded to the input's dtype


CASTS = {
    "mul_": lambda n, x: n.mul_(x),
    "imul": lambda n, x: operator.imul(n, x),
    "by a number": lambda n, x: n.mul_(0.5),
    "addcmul_": lambda n, x: n.addcmul_(x, x),
    "sub_": lambda n, x: n.sub_(x, alpha=2),
    "of a comparison": lambda n, x: (n > 0).mul_(n),
    "of complex numbers": lambda n, x: x.mul_(torch.complex(x, x)),
    "logit_": lambda n, x: n.logit_(),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("name", CASTS)
def test_results_that_cannot_be_cast_to_the_written_dtype(name, backend):
    write = CASTS[name]

    def f(n, x, items):
        n.add_(1)
        items.append(x.tanh())
        return write(n, x), items

    check(f, torch.arange(3), vec(3), [], graphs=None, breaks=None, backend=backend)


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
def test_results_that_can_be_cast_are_no_break(backend):
    def f(n, m, x):
        n.mul_(m > 1).floor_divide_(m).index_add_(0, m, n)
        x.mul_(n).addcmul_(x, n, value=0.5).pow_(2)
        return n, x

    check(f, torch.arange(3), torch.tensor([2, 1, 0]), vec(3), graphs=1, backend=backend)


@pytest.mark.parametrize("name", ["random_", "bernoulli_", "geometric_"])
def test_the_generator_is_where_eager_leaves_it(name):
    draw = {"random_": (0, 10), "bernoulli_": (0.5,), "geometric_": (0.5,)}[name]

    def f(n):
        return getattr(n.clone(), name)(*draw), torch.rand(2)

    runs = []
    for call in (f, strict_compile(f)):
        torch.manual_seed(0)
        runs.append(call(torch.arange(3)))
    for mine, yours in zip(*runs, strict=True):
        assert torch.equal(mine, yours)


REFUSED = {  # by torch's kernels, not by fake tensors
    "hypot_ of integers": (lambda x, y: x.hypot_(y), torch.int64, torch.int64),
    "nextafter_ of integers": (lambda x, y: x.nextafter_(y), torch.int32, torch.int32),
    "heaviside_ of two dtypes": (lambda x, y: x.heaviside_(y), torch.float32, torch.float64),
    "xlogy_ of complex numbers": (lambda x, y: x.xlogy_(y), torch.complex64, torch.float32),
    "addcdiv_ of truths": (lambda x, y: x.addcdiv_(y, y), torch.float32, torch.bool),
    "sub_ of truths": (lambda x, y: x.sub_(y), torch.float32, torch.bool),
    "relu_ of truths": (lambda x, y: x.relu_(), torch.bool, torch.bool),
    "mul_ of what cannot be cast": (lambda x, y: x.mul_(y), torch.int64, torch.float32),
}


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("name", REFUSED)
def test_writes_that_have_no_kernel_raise_as_in_eager(name, backend):
    write, *dtypes = REFUSED[name]
    met = []

    def f(x, y):
        met.append(1)
        write(x, y)
        met.append(2)

    tensors = [torch.ones(4, dtype=dtype) for dtype in dtypes]
    raised = []
    for fn in (f, strict_compile(f, backend=backend)):
        with pytest.raises((RuntimeError, NotImplementedError)) as caught:
            fn(*tensors)
        raised.append((type(caught.value), str(caught.value)))
    assert raised[0] == raised[1]
    assert met == [1, 1]
