"""Memory on a real device: small buffers in one piece, large values computed again for the backward
pass."""

from __future__ import annotations

import copy
import threading

import framejit
import pytest
import torch
from torch.nn import functional as F

pytestmark = pytest.mark.gpu


def chain(x):
    first = x.exp().sum(0)
    for link in range(6):
        x = torch.softmax(x, link % 2)
    return x * first


@pytest.mark.parametrize("backend", ["native", "autotune"])
@pytest.mark.parametrize("rows", [3, 37, 64])
def test_small_buffers_lie_in_one_piece(backend, rows, reports):
    call = framejit.compile(chain, backend=backend)
    with torch.no_grad():
        for _ in range(4):
            x = torch.randn(rows, 65, device="cuda")
            torch.testing.assert_close(call(x), chain(x))
    buffers = [report.host.count("empty_cuda") for report in reports]
    assert backend != "native" or 1 + 1 in buffers, buffers


class Gated(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up, self.down = (
            torch.nn.Linear(256, 1024),
            torch.nn.Linear(256, 1024),
            torch.nn.Linear(1024, 256),
        )

    def forward(self, x):
        return x + self.down(F.silu(self.gate(x)) * self.up(x))


def peak(model, x):
    """Bytes at the peak of a step above what was there before it, and the gradients."""
    for _ in range(2):
        model.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        model(x).square().mean().backward()
        torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before, [
        parameter.grad for parameter in model.parameters()
    ]


def test_large_values_are_computed_again_for_the_backward_pass():
    model = torch.nn.Sequential(*(Gated() for _ in range(4))).cuda()
    x = torch.randn(2048, 256, device="cuda")
    compiled = framejit.compile(copy.deepcopy(model), backend="native")
    (eager_bytes, want), (bytes_, got) = peak(model, x), peak(compiled, x)
    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-4)
    value = (
        2048 * 1024 * 4
    )  # bytes; each block keeps two such values, eager four, and one is made where it was read again
    assert bytes_ < eager_bytes - 5 * value, (bytes_, eager_bytes)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_sign_of_a_zero_is_kept(dtype):
    def negate(x):
        return -x, 1 / -x

    x = torch.tensor([0.0, -0.0, 2.0], device="cuda", dtype=dtype)
    for got, want in zip(framejit.compile(negate, backend="native")(x), negate(x), strict=True):
        assert got.tolist() == want.tolist()
        assert got.signbit().tolist() == want.signbit().tolist()


def test_in_a_thread_that_has_not_used_the_gpu():
    """Nothing else of the call would give the driver's context to the thread: its memory is there."""
    call = framejit.compile(lambda x: x.sin() * 2, backend="native")
    x = torch.randn(512, device="cuda")
    call(x)
    found = []
    thread = threading.Thread(target=lambda: found.append(call(x)))
    thread.start()
    thread.join()
    torch.testing.assert_close(found[0], x.sin() * 2)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_products_with_a_vocabulary_of_odd_size(dtype, reports):
    """Products are padded, forwards and backwards: they are as far from float64 as eager's."""
    layer = torch.nn.Linear(768, 5003, device="cuda", dtype=dtype)
    x = torch.randn(2048, 768, device="cuda", dtype=dtype)
    labels = torch.randint(0, 5003, (2048,), device="cuda")

    def gradients(call, layer, x):
        x = x.detach().requires_grad_()
        loss = F.cross_entropy(call(x).float(), labels)
        loss.backward()
        return x.grad, layer.weight.grad, layer.bias.grad

    exact = gradients(*[copy.deepcopy(layer).double()] * 2, x.double())
    eager = gradients(*[copy.deepcopy(layer)] * 2, x)
    own = copy.deepcopy(layer)
    found = gradients(framejit.compile(own, backend="native"), own, x)
    for mine, other, true in zip(found, eager, exact, strict=True):
        assert mine.stride() == other.stride()
        assert (mine - true).norm() <= 1.5 * (other - true).norm() + 1e-6
    assert any("mm" in kernel.ops[-1] for report in reports for kernel in report.kernels)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("channels", [3, 16, 24, 32, 64])
@pytest.mark.parametrize("size", [28, 112])
def test_statistics_that_a_kernel_reads_and_writes_are_updated_once(channels, size, layout):
    """The threads of a program that hold the same number all read it before one stores to it."""
    norm = torch.nn.BatchNorm2d(channels).cuda()
    compiled = framejit.compile(copy.deepcopy(norm), backend="native")
    x = torch.randn(16, channels, size, size, device="cuda").to(memory_format=layout)
    for _ in range(5):
        norm(x), compiled(x)
        torch.testing.assert_close(compiled.running_var, norm.running_var)
        torch.testing.assert_close(compiled.running_mean, norm.running_mean, atol=1e-7, rtol=1e-5)
