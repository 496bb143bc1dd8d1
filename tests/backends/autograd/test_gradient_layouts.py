"""Strides of gradients are eager's, however the incoming gradients lie in memory, and nothing is
copied where they agree."""

from __future__ import annotations

import framejit
import pytest
import torch
import torch.nn.functional as F
from framejit.backends.autograd import gradient_layouts
from torch import nn

LAST = torch.channels_last
CONVOLUTION = nn.Conv2d(4, 6, 3, padding=1)
COUNT = torch.zeros(())
NORM = nn.BatchNorm2d(4)


def numbers(*shape):
    return torch.arange(float(torch.Size(shape).numel())).reshape(shape).div_(7).sin_()


def image():
    return numbers(2, 4, 6, 5)


PROGRAMS = {
    "transposed": (lambda x: x.t() * 2, lambda: [numbers(3, 4)]),
    "transposed used twice": (lambda x: x.t().sin() + x.t() * 2, lambda: [numbers(3, 4)]),
    "product of transposed": (
        lambda x, y: (x @ y.t()).t() * 2,
        lambda: [numbers(3, 4), numbers(5, 4)],
    ),
    "channels last": (lambda x: x.to(memory_format=LAST), lambda: [image()]),
    "channels last and a number": (lambda x: x.to(memory_format=LAST) * 2, lambda: [image()]),
    "channels last in": (lambda x: x * 2, lambda: [image().to(memory_format=LAST)]),
    "channels last to contiguous": (
        lambda x: (x * 2).contiguous(),
        lambda: [image().to(memory_format=LAST)],
    ),
    "permuted": (lambda x: x.permute(2, 0, 1).sin(), lambda: [numbers(3, 4, 5)]),
    "rot90": (lambda x: torch.rot90(x, 1, [0, 1]) * 3, lambda: [numbers(3, 4)]),
    "flipped": (lambda x: x.t().flip(0), lambda: [numbers(3, 4)]),
    "leaf that is transposed": (lambda x: x.sin(), lambda: [numbers(3, 4).t()]),
    "another dtype": (lambda x: x.t().double() * 2, lambda: [numbers(3, 4)]),
    "broadcast": (lambda x, y: x * y, lambda: [numbers(3, 4).t(), numbers(3)]),
    "gelu": (lambda x: F.gelu(x.t()), lambda: [numbers(3, 4)]),
    "dropout": (lambda x: F.dropout(x.t(), 0.5), lambda: [numbers(3, 4)]),
    "resized image": (
        lambda x: F.interpolate(x, scale_factor=2),
        lambda: [image().to(memory_format=LAST)],
    ),
    "convolution": (lambda x: CONVOLUTION(x).relu(), lambda: [image().to(memory_format=LAST)]),
    "batch norm": (lambda x: NORM(x), lambda: [image().to(memory_format=LAST)]),
    "batch norm of rows": (
        lambda x: F.batch_norm(x, None, None, training=True),
        lambda: [numbers(3, 5, 4).transpose(1, 2)],
    ),
    "hardswish": (F.hardswish, lambda: [numbers(3, 4).t()]),
    "ormqr": (torch.ormqr, lambda: [numbers(4, 3).t().contiguous().t(), numbers(3), numbers(4, 2)]),
    "product of all": (lambda x: x.prod()[None], lambda: [numbers(3, 4, 5).transpose(1, 2)]),
    "maximum of all": (lambda x: x.max()[None], lambda: [numbers(3, 4).t()]),
    "cross entropy of an image": (
        lambda x: F.cross_entropy(x, torch.zeros(2, 6, 5, dtype=torch.long))[None],
        lambda: [image().to(memory_format=LAST)],
    ),
    "padding that cuts": (
        lambda x: F.pad(x, (-1, 1, -1, 1), mode="replicate"),
        lambda: [image().to(memory_format=LAST)],
    ),
    "two results": (lambda x: (x.t() * 2, x.t().sin().sum(0)), lambda: [numbers(3, 4)]),
    "a written buffer": (lambda x: (COUNT.add_(1), x.t() * 2)[1], lambda: [numbers(3, 4)]),
}
INCOMING = {
    "like the result": torch.ones_like,
    "contiguous": lambda result: torch.ones(result.shape, dtype=result.dtype),
    "last dimension first": lambda result: torch.ones(
        result.shape[::-1], dtype=result.dtype
    ).permute(*range(result.dim())[::-1]),
    "with gaps": lambda result: torch.ones((*result.shape, 2), dtype=result.dtype)[..., 0],
}


def gradients(function, given, incoming):
    torch.manual_seed(0)
    leaves = [tensor.clone().requires_grad_() for tensor in given]
    results = function(*leaves)
    results = results if isinstance(results, tuple) else (results,)
    return torch.autograd.grad(results, leaves, [INCOMING[incoming](result) for result in results])


@pytest.mark.parametrize("backend", ("aot_eager", "native"))
@pytest.mark.parametrize("name", PROGRAMS)
def test_strides_are_eagers(name, backend):
    function, make = PROGRAMS[name]
    compiled = framejit.compile(function, backend=backend)
    for incoming in (*INCOMING, *INCOMING):  # the second time, what was found out is known
        if incoming == "with gaps" and name == "channels last":
            continue  # eager hands on the very gradient, gaps and all
        wanted = gradients(function, make(), incoming)
        got = gradients(compiled, make(), incoming)
        assert [gradient.stride() for gradient in got] == [
            gradient.stride() for gradient in wanted
        ], incoming
        torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("backend", ("aot_eager", "native"))
def test_a_result_that_fake_tensors_lay_out_otherwise(backend):
    def function(x):
        return F.max_unpool2d(x, torch.arange(120).reshape(2, 4, 3, 5) % 60, 2)

    given = numbers(2, 4, 3, 5).to(memory_format=LAST)
    got, wanted = framejit.compile(function, backend=backend)(given), function(given)
    assert got.stride() == wanted.stride() and torch.equal(got, wanted)


@pytest.mark.parametrize("backend", ("aot_eager", "native"))
def test_sizes_that_vary(backend):
    compiled = framejit.compile(lambda x: x.t() * 2, backend=backend, dynamic=True)
    for rows, columns in ((3, 4), (5, 6), (7, 3), (2, 9)):
        for incoming in INCOMING:
            wanted = gradients(lambda x: x.t() * 2, [numbers(rows, columns)], incoming)
            got = gradients(compiled, [numbers(rows, columns)], incoming)
            assert [gradient.stride() for gradient in got] == [
                gradient.stride() for gradient in wanted
            ], (rows, columns, incoming)


def test_repeated_gradients_of_results_that_are_not_contiguous():
    """The gradient of sum() is one number; eager hands it on as it is."""

    def function(x):
        return x.to(memory_format=LAST)

    leaves = image().requires_grad_(), image().requires_grad_()
    results = function(leaves[0]), framejit.compile(function, backend="native")(leaves[1])
    wanted, got = (
        torch.autograd.grad(result.sum(), leaf)[0]
        for result, leaf in zip(results, leaves, strict=True)
    )
    assert wanted.stride() == got.stride() == (0, 0, 0, 0)


def test_a_contiguous_graph_is_not_asked_about(monkeypatch):
    monkeypatch.setattr(
        gradient_layouts.GradientLayouts, "find", lambda *given: pytest.fail("asked")
    )
    monkeypatch.setattr(gradient_layouts, "with_layout", lambda *given: pytest.fail("copied"))
    compiled = framejit.compile(lambda x, y: (x @ y.t()).sin(), backend="native")
    leaves = numbers(3, 4).requires_grad_(), numbers(5, 4).requires_grad_()
    torch.autograd.grad(compiled(*leaves), leaves, torch.ones(3, 5))
    torch.autograd.grad(compiled(*leaves).sum(), leaves)


def test_nothing_is_copied_where_layouts_agree(monkeypatch):
    monkeypatch.setattr(gradient_layouts, "with_layout", lambda *given: pytest.fail("copied"))
    compiled = framejit.compile(lambda x: CONVOLUTION(x).relu(), backend="native")
    given = image().to(memory_format=LAST).requires_grad_()
    for _ in range(3):
        result = compiled(given)
        torch.autograd.grad(result, given, torch.ones_like(result))


def test_what_a_layout_is_asked_with_leaves_no_trace():
    """Random numbers, buffers and grad mode are as they were."""
    counter = torch.zeros(())

    def function(x):
        counter.add_(1)
        return F.dropout(x.t(), 0.5) * 2

    compiled = framejit.compile(function, backend="native")
    given = numbers(3, 4).requires_grad_()
    result = compiled(given)
    before = torch.get_rng_state()
    torch.autograd.grad(result, given, torch.ones(4, 3))
    assert torch.equal(torch.get_rng_state(), before) and counter == 1 and torch.is_grad_enabled()


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
def test_a_leaf_that_gets_other_dimensions_behind_the_graph(backend):
    def f(leaf):
        total = (leaf * leaf).sum()
        print("", end="")
        with torch.no_grad():
            leaf.unsqueeze_(0)
        return total + leaf.abs().max()

    def gradient(call):
        leaf = torch.arange(6.0).view(3, 2).t().requires_grad_()
        try:
            return torch.autograd.grad(call(leaf), leaf)[0]
        except RuntimeError as error:
            return str(error)[:30]

    mine, yours = gradient(framejit.compile(f, backend=backend)), gradient(f)
    assert type(mine) is type(yours) and (
        mine == yours if type(mine) is str else torch.equal(mine, yours)
    )
