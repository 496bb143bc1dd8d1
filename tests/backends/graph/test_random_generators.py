"""Operators that draw from a generator of the program's: one graph, and eager's numbers."""

from __future__ import annotations

import itertools

import framejit
import pytest
import torch

from ...frontend.semantics.harness import strict_compile, vec

BACKENDS = ("eager", "aot_eager", "native", "autotune")


def adds_noise(x, g):
    return (x + torch.randn(3, generator=g)).sin() * torch.rand(3, generator=g)


def two_generators(x, g, other):
    y = torch.randint(0, 10, (3,), generator=g) + torch.randperm(3, generator=other)
    return y * x


def in_place(x, g):
    y = x.sin()
    y.normal_(generator=g)
    return y + torch.bernoulli(x.detach() / 4, generator=g)


def fills_an_argument(x, g):
    x.data.uniform_(generator=g)
    x.detach().exponential_(generator=g)
    return x * 2


def initialises(x, g):
    return torch.nn.init.xavier_uniform_(torch.empty(3, 3), generator=g) @ x


def beside_the_default(x, g):
    return torch.rand(3) + torch.rand(3, generator=g) + torch.rand(3) * x


def seeds(x, g):
    y = x + torch.rand(3, generator=g)
    return y * torch.rand(3, generator=g.manual_seed(4))


def keeps_and_restores(x, g):
    state = g.get_state()
    y = x * torch.rand(3, generator=g)
    same = g.set_state(state) is g
    return y + torch.rand(3, generator=g) + state.sum() * same


def replays_another(x, g, other):
    other.set_state(g.get_state())
    return x + torch.rand(3, generator=other) - torch.rand(3, generator=g)


FUNCTIONS = [
    adds_noise, two_generators, in_place, initialises, beside_the_default, seeds, keeps_and_restores,
    replays_another,
]  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("fn", "grad"),
    # a leaf that requires a gradient cannot be written
    [*itertools.product(FUNCTIONS, [False, True]), (fills_an_argument, False)],
)
def test_numbers_and_states_are_eagers(fn, grad, backend):
    step = strict_compile(fn, backend=backend)
    count = fn.__code__.co_argcount - 1
    mine, yours = ([torch.Generator().manual_seed(n) for n in range(count)] for _ in range(2))
    for _ in range(3):
        x, y = vec(3, grad=grad), vec(3, grad=grad)
        torch.manual_seed(5)
        expected, state = fn(x, *mine), torch.get_rng_state()
        torch.manual_seed(5)
        made = step(y, *yours)
        torch.testing.assert_close(made, expected)
        torch.testing.assert_close(y, x)
        assert torch.get_rng_state().equal(state)
        assert all(a.get_state().equal(b.get_state()) for a, b in zip(mine, yours, strict=True))
        if expected.requires_grad:
            expected.sum().backward()
            made.sum().backward()
            torch.testing.assert_close(x.grad, y.grad)
    report = step.framejit.explain()
    assert len(report.graphs) == 1 and not report.breaks


def test_any_generator_serves_one_entry():
    step = strict_compile(adds_noise, backend="eager")
    for seed in range(4):
        x = vec(3)
        expected = adds_noise(x, torch.Generator().manual_seed(seed))
        assert step(x, torch.Generator().manual_seed(seed)).equal(expected)
    assert step.framejit.compiles == 1


def test_no_generator_is_another_entry():
    step = strict_compile(adds_noise, backend="eager")
    step(vec(3), torch.Generator())
    torch.manual_seed(3)
    expected = adds_noise(vec(3), None)
    torch.manual_seed(3)
    assert step(vec(3), None).equal(expected)


def test_an_error_takes_the_numbers_back():
    def fn(x, index, g):
        y = torch.rand(3, generator=g)
        return (x + y)[index]

    step = framejit.compile(fn, backend="eager")
    mine, yours = torch.Generator().manual_seed(1), torch.Generator().manual_seed(1)
    for index in (1, 7):
        for function, g in ((fn, mine), (step, yours)):
            try:
                function(vec(3), torch.tensor(index), g)
            except IndexError:
                assert index == 7
        assert mine.get_state().equal(yours.get_state())


def test_a_generator_that_the_frame_seeds():
    def fn(x, g):
        y = torch.rand(3, generator=g)
        g.manual_seed(7)
        return x + y + torch.rand(3, generator=g)

    step = framejit.compile(fn, backend="eager")
    for seed in (1, 2):
        expected = fn(vec(3), torch.Generator().manual_seed(seed))
        assert step(vec(3), torch.Generator().manual_seed(seed)).equal(expected)
    report = step.framejit.explain()
    assert not report.breaks and len(report.captures) == 1


def test_an_error_takes_the_seed_back():
    def fn(x, index, g):
        state = g.get_state()
        y = torch.rand(3, generator=g.manual_seed(3))
        z = (x + y)[index]
        g.set_state(state)
        return z

    step = framejit.compile(fn, backend="eager")
    mine, yours = torch.Generator().manual_seed(1), torch.Generator().manual_seed(1)
    for index in (1, 7, 2):
        for function, g in ((fn, mine), (step, yours)):
            try:
                function(vec(3), torch.tensor(index), g)
            except IndexError:
                assert index == 7
        assert mine.get_state().equal(yours.get_state())


@pytest.mark.parametrize(
    "state", [torch.zeros(3, dtype=torch.uint8), torch.zeros(5056), torch.zeros(5056, dtype=torch.uint8)]
)  # fmt: skip
def test_a_wrong_state_raises_as_in_eager(state):
    def fn(x, g, state):
        g.set_state(state)
        return x + torch.rand(3, generator=g)

    step = strict_compile(fn, backend="eager")
    for function in (fn, step, step):
        with pytest.raises((RuntimeError, TypeError)) as found:
            function(vec(3), torch.Generator(), state)
        assert "state" in str(found.value)
