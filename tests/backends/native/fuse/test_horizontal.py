"""Small independent kernels of equal sizes: which are joined, and that their results stay the
same."""

from __future__ import annotations

import framejit
import pytest
import torch
from framejit.backends.native import backend as native
from framejit.backends.native.fuse import horizontal


def rows(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def apart(x, y, z):
    return x.sin(), y.cos() * 2, (z.exp(), z.neg())[0]


def normalized(x, y, z):
    return torch.softmax(x, -1), torch.softmax(y, -1) + 1, z.sum(-1), (x * 2).sum(-1)


def one_after_the_other(x, y, z):
    first = torch.softmax(x, 0)
    second = torch.softmax(first, 1)
    return second, torch.softmax(y, 0), torch.softmax(torch.softmax(z, 1), 0), torch.softmax(y, 1)


def around_a_product(x, y, z):
    return (x.sin() @ y).cos() + y.sin(), z.tanh(), (z * 3) @ z


def places(x, y, z):
    return x.argmax(-1), y.argmax(-1), z.amax(-1)


# how many kernels there are, and how many without
CASES = {
    apart: (1, 3), normalized: (1, 3), one_after_the_other: (2, 6), around_a_product: (2, 3), places: (3, 3),
}  # fmt: skip


@pytest.fixture
def joins(monkeypatch):
    """Kernels for the CPU are joined as those for a GPU."""
    original = horizontal.fuse_horizontally
    monkeypatch.setattr(native, "fuse_horizontally", lambda program: original(program, ("cpu",)))


@pytest.mark.parametrize("function", CASES, ids=lambda function: function.__name__)
def test_joined(function, joins, reports):
    args = [rows(24, 24, seed=seed) for seed in range(3)]
    got = framejit.compile(function, backend="native")(*args)
    torch.testing.assert_close(got, function(*args), check_stride=True)
    assert reports[0].host.count("run(kernel") == CASES[function][0], reports[0].host


@pytest.mark.parametrize("function", CASES, ids=lambda function: function.__name__)
def test_not_on_the_cpu(function, reports):
    framejit.compile(function, backend="native")(*(rows(24, 24) for _ in range(3)))
    assert reports[0].host.count("run(kernel") == CASES[function][1]


def test_large_ones_stay_alone(joins, reports):
    framejit.compile(lambda x, y: (x.sin(), y.cos()), backend="native")(
        rows(300, 300), rows(300, 300)
    )
    assert reports[0].host.count("run(kernel") == 2


@pytest.mark.parametrize(("size", "kernels"), [(24, 1), (200, 2)])
def test_only_what_is_little_is_made_sooner(size, kernels, joins, reports):
    x, y = rows(size, size, seed=1), rows(size, size, seed=2)
    framejit.compile(lambda x, y: (x.sin() @ x, y.cos()), backend="native")(x, y)
    assert reports[0].host.count("run(kernel") == kernels


def test_other_sizes_stay_alone(joins, reports):
    framejit.compile(lambda x, y: (x.sin(), y.cos()), backend="native")(rows(30, 3), rows(30, 4))
    assert reports[0].host.count("run(kernel") == 2


def test_one_kernel_takes_so_many_buffers(joins, reports):
    tensors = [rows(9, seed=seed) for seed in range(40)]
    got = framejit.compile(lambda *tensors: [x.sin() for x in tensors], backend="native")(*tensors)
    torch.testing.assert_close(got, [x.sin() for x in tensors])
    assert reports[0].host.count("run(kernel") == 4  # 24 buffers at most


def test_a_small_part_of_a_large_tensor_stays_alone(joins, reports):
    framejit.compile(lambda x, y: (x[:24].sin(), y.cos()), backend="native")(
        rows(3000, 24), rows(24, 24)
    )
    assert reports[0].host.count("run(kernel") == 2


def test_sizes_that_vary_stay_alone(joins, reports):
    compiled = framejit.compile(lambda x, y: (x.sin(), y.cos()), backend="native", dynamic=True)
    compiled(rows(24), rows(24))
    assert reports[0].host.count("run(kernel") == 2
