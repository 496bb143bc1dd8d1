"""Tiles, products and addresses on a device."""

from __future__ import annotations

import framejit
import pytest
import torch
from torch.nn import functional as F

pytestmark = pytest.mark.gpu


def made(*shape, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to("cuda", dtype)


CASES = {
    "pointwise": (lambda x, y: torch.sin(x) * y, ((300, 70), (300, 70))),
    "transposed": (lambda x, y: x.t() + y, ((300, 70), (70, 300))),
    "softmax": (lambda x: torch.softmax(x * 2, -1), ((60, 700),)),
    "sum over rows": (lambda x: (x * x).sum(0), ((4096, 300),)),
    "linear": (lambda x, w, b: F.gelu(F.linear(x, w, b)), ((100, 72), (50, 72), (50,))),
    "batches": (lambda x, y: (x @ y) * 0.5, ((64, 30, 40), (64, 40, 50))),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("mode", ["default", "max-autotune-no-cudagraphs"])
def test_equals_eager(name, mode, dtype, cache_dir):
    function, shapes = CASES[name]
    args = [made(*shape, dtype=dtype) for shape in shapes]
    loose = 3e-2 if dtype == torch.bfloat16 else 1e-3
    got = framejit.compile(function, backend="native", mode=mode)(*args)
    torch.testing.assert_close(got, function(*args), atol=loose, rtol=loose, check_stride=True)


def test_gradients_of_tuned_kernels(cache_dir):
    results = []
    for function in (
        CASES["linear"][0],
        framejit.compile(CASES["linear"][0], backend="native", mode="max-autotune-no-cudagraphs"),
    ):
        args = [made(*shape).requires_grad_() for shape in CASES["linear"][1]]
        function(*args).square().sum().backward()
        results.append([arg.grad for arg in args])
    torch.testing.assert_close(results[1], results[0], atol=1e-2, rtol=1e-2)


def test_measuring_leaves_nothing(cache_dir):
    x, y = made(2048, 2048), made(2048, 2048)  # a whole number of the allocator's pages
    framejit.compile(lambda x: x + 1, backend="native")(x)
    torch.cuda.empty_cache()
    held, reserved = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    result = framejit.compile(
        lambda x, y: x.t() + y, backend="native", mode="max-autotune-no-cudagraphs"
    )(x, y)
    assert torch.cuda.memory_allocated() - held == result.nbytes
    del result
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == reserved


def test_the_generator_is_as_it_was(cache_dir):
    torch.manual_seed(3)
    want = torch.rand(4, device="cuda")
    torch.manual_seed(3)
    framejit.compile(lambda x: x.sin() + 1, backend="native", mode="max-autotune-no-cudagraphs")(
        made(500, 70)
    )
    assert torch.equal(torch.rand(4, device="cuda"), want)


def test_addresses_that_are_no_multiples(cache_dir):
    whole = made(5001)
    compiled = framejit.compile(lambda x: x.sin() * 2, backend="native")
    for x in (whole[:5000], whole[1:], whole[:5000]):
        torch.testing.assert_close(compiled(x), x.sin() * 2)
