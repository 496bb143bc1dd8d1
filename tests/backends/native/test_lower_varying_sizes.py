"""Graphs with sizes that vary: what native makes of operators whose arguments are such sizes."""

from __future__ import annotations

import framejit
import pytest
import torch
from torch.nn import functional as F

SLICES = {
    "the whole": lambda x, n: x[:, : x.shape[1]] * 2,
    "from the start": lambda x, n: x[:, :3].sin(),
    "to a size": lambda x, n: x[:, :n].sin(),
    "from a size": lambda x, n: x[:, n:].sin(),
    "a step": lambda x, n: x[:, 1::2].sin(),
    "from the end": lambda x, n: x[:, -2:].sin(),
}


@pytest.mark.parametrize("name", SLICES)
def test_gradients_of_slices(name):
    """The backward pass of a slice writes a window of zeros."""
    compiled = framejit.compile(SLICES[name], backend="native")
    for rows, columns in ((3, 8), (4, 10), (5, 12), (7, 14)):
        one, other = (
            torch.arange(float(rows * columns)).reshape(rows, columns).requires_grad_()
            for _ in "xy"
        )
        SLICES[name](one, columns // 2).sum().backward()
        compiled(other, columns // 2).sum().backward()
        torch.testing.assert_close(other.grad, one.grad)
    assert compiled.framejit.compiles == 2


def test_the_gradient_of_a_whole_slice_is_no_call():
    def f(x, y):
        return (x[:, : x.shape[1]].sin() * y).sum()

    compiled = framejit.compile(f, backend="native", dynamic=True)
    compiled(torch.ones(3, 4, requires_grad=True), torch.ones(3, 4)).backward()
    assert not any("slice_scatter" in note.text for note in compiled.framejit.explain().notes)


def test_padding_by_nothing_around():
    """A kernel of no rows is among those that are fused."""

    def f(x):
        return F.pad(x, (0, 0, 0, 2), mode="circular").sin()

    compiled = framejit.compile(f, backend="native", dynamic=True)
    for size in (5, 6):
        one, other = (torch.ones(2, 3, size, size, requires_grad=True) for _ in "xy")
        f(one).sum().backward()
        compiled(other).sum().backward()
        torch.testing.assert_close(other.grad, one.grad)


PARTS = {
    "two parts": lambda x, n: x[n:].sin().sum() + x[:n].cos().sum(),
    "a part": lambda x, n: x[n:].sin() * 2,
    "a chunk": lambda x, n: (x[:n] + 1).relu().mean(1),
}


@pytest.mark.parametrize("name", PARTS)
def test_parts_of_one_row(name):
    """Whether a part has one row makes no difference to a kernel."""
    compiled, x = framejit.compile(PARTS[name], backend="native"), torch.randn(12, 3)
    for rows in (3, 6, 9, 1, 11):
        torch.testing.assert_close(compiled(x, rows), PARTS[name](x, rows))
    assert compiled.framejit.compiles == 2


QUOTIENTS = {
    "rounded up": lambda x, n: x[(n - 1) // 2 + 1 :].sin() * 2,
    "a window": lambda x, n: F.pad(x, ((n - 1) // 2 + 1, 1)).sin(),
    "both parts": lambda x, n: torch.cat(
        [x[: (n - 1) // 2 + 1].cos(), x[(n - 1) // 2 + 1 :]]
    ).exp(),
    "a remainder": lambda x, n: x[(n - 1) % 3 + 1 :].sin() * 2,
}


@pytest.mark.parametrize("name", QUOTIENTS)
def test_quotients_round_down(name):
    """In C they are rounded towards zero: those of a number that may be negative are calculated in
    Python."""
    compiled, x = framejit.compile(QUOTIENTS[name], backend="native"), torch.randn(12, 3)
    for number in (3, 6, 0, 1, 2, 7):
        torch.testing.assert_close(compiled(x, number), QUOTIENTS[name](x, number))
    assert compiled.framejit.compiles == 2


CONVOLUTIONS = {
    "halved": lambda x, w: F.conv2d(x, w, stride=2, padding=1),
    "a quarter": lambda x, w: F.max_pool2d(F.conv2d(x, w, stride=2, padding=1), 3, 2, 1),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_sizes_of_convolutions_are_fused(name):
    """As many kernels as with static sizes."""
    weights, of_channels = torch.randn(4, 4, 3, 3) / 6, torch.rand(4) + 0.5

    def f(x):
        y = CONVOLUTIONS[name](x, weights)
        y = F.batch_norm(y, of_channels, of_channels).relu() + 1
        return F.batch_norm(y, of_channels, of_channels).tanh()

    compiled, counts = framejit.compile(f, backend="native"), []
    for batch, size in ((2, 17), (3, 20), (5, 9), (2, 31)):
        x = torch.randn(batch, 4, size, size + 1)
        torch.testing.assert_close(compiled(x), f(x))
        kernels = [part for one in compiled.framejit.explain().captures for part in one.kernels]
        counts.append(len(kernels[-1].kernels))
    assert compiled.framejit.compiles == 2
    assert len(set(counts)) == 1


def test_inputs_that_start_anywhere_in_their_storages():
    def f(x, y):
        return (x.unsqueeze(0) * y.unsqueeze(1)).sum(0)

    compiled = framejit.compile(f, backend="native", dynamic=True)
    for rows in (3, 5):
        pair = torch.randn(2, rows, 4).unbind()
        torch.testing.assert_close(compiled(*pair), f(*pair))
    notes = [note.text for note in compiled.framejit.explain().notes]
    assert notes and all(note.startswith("compiled: ") for note in notes)
