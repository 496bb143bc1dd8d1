"""Random numbers: the same ones as eager, and the generators left in the same state."""

from __future__ import annotations

import random

import pytest
import torch
import torch.nn.functional as F

from ..semantics.harness import check, strict_compile, vec


def test_draws():
    def f(x):
        return (
            torch.rand(2),
            torch.randn(3),
            torch.randint(0, 9, (2,)),
            torch.rand_like(x),
            torch.randperm(4),
            torch.bernoulli(x),
            x.normal_(),
        )

    check(f, vec(2))


def test_dropout():
    def f(x):
        return F.dropout(x, 0.5, training=True), F.dropout(x, 0.5, training=False)

    check(f, vec(10))


def test_dropout_with_gradients():
    def f(x):
        return F.dropout(x * 2, 0.5)

    check(f, vec(10, grad=True), backward=True)


def test_manual_seed_inside():
    def f(x):
        torch.manual_seed(7)
        return torch.rand(2) + x

    check(f, vec(2), fullgraph=True)


def test_state_saved_and_restored():
    def f(x):
        state = torch.get_rng_state()
        a = torch.rand(2)
        torch.set_rng_state(state)
        return a, torch.rand(2), x + 1

    check(f, vec(2), graphs=None, breaks=None)


def test_pythons_random():
    def f(x):
        return x * random.random(), random.randint(1, 5)

    check(f, vec(2), graphs=None, breaks=None)


def test_generator_argument():
    from ..semantics.harness import strict_compile

    def f(x, g):
        return torch.rand(2, generator=g) + x

    g = strict_compile(f)
    a, b = torch.Generator().manual_seed(1), torch.Generator().manual_seed(1)
    assert torch.equal(g(vec(2), a), f(vec(2), b))
    assert torch.equal(g(vec(2), a), f(vec(2), b))


def test_draws_around_a_break():
    def f(x):
        a = torch.rand(2)
        print("p")
        return a + torch.rand(2) + x

    check(f, vec(2), graphs=2, breaks=("output",))


def test_failing_graph_draws_once():
    def f(x, i):
        noise = torch.rand(2)
        try:
            return F.embedding(i, x) + noise
        except IndexError:
            return noise, torch.rand(2)

    check(f, vec(2, 2), torch.tensor([5]), graphs=None, breaks=None)


def kept_and_put_back(x):
    state = torch.get_rng_state()
    drawn = torch.rand(2)
    torch.set_rng_state(state)
    return x + drawn


def forked(x):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        drawn = torch.rand(2)
    return x + drawn


def seeded(x):
    torch.manual_seed(-3)
    return x + torch.rand(2)


def seeded_only(x, log):
    log.append(torch.manual_seed(3) is torch.default_generator)
    return log


def put_back_while_handling(x):
    state = torch.get_rng_state()
    try:
        torch.manual_seed(1)
        drawn = torch.rand(2)
        raise ValueError
    except ValueError:
        torch.set_rng_state(state)
    return x + drawn, state


def put_back_behind_a_break(x):
    state = torch.get_rng_state()
    drawn = torch.rand(2)
    print(x.shape)
    torch.set_rng_state(state)
    return x + drawn


def between_draws(x):
    first = torch.rand(2)
    state = torch.get_rng_state()
    second = torch.rand(2)
    torch.set_rng_state(state)
    return x, first, second, torch.rand(2)


def seeded_in_turns(x):
    drawn = []
    for seed in range(3):
        torch.manual_seed(seed)
        drawn.append(torch.rand(2) + x)
    return drawn, torch.initial_seed()


def two_states(x):
    one, other = torch.get_rng_state(), torch.get_rng_state()
    return one is other, x + torch.rand(2), one


def read_and_forked(x):
    with torch.random.fork_rng(devices=[]):
        drawn = F.dropout(x, 0.5)
    return drawn + torch.rand(2), torch.get_rng_state()


def put_back_twice(x):
    state = torch.get_rng_state()
    first = torch.rand(2)
    torch.set_rng_state(state)
    torch.set_rng_state(state)
    second = torch.rand(2)
    torch.set_rng_state(state)
    return x, first, second, F.dropout(x, 0.5, training=False)


def only_put_back(x):
    y = x.sin()
    torch.set_rng_state(torch.get_rng_state())
    return y


def draw_behind_a_state(x, state=torch.get_rng_state()):
    y = x.sin()
    torch.set_rng_state(state)
    return y + torch.rand(2)


def seeded_and_refused(x):
    torch.manual_seed(5)
    drawn = torch.rand(2)
    if (drawn > 0.1).any():
        raise ValueError(str(drawn.tolist()))
    return x


def wrong_state(x):
    torch.set_rng_state(torch.zeros(3, dtype=torch.uint8))
    return x + 1


def wrong_seed(x):
    y = x + 1
    torch.manual_seed(2**65)
    return y


@pytest.mark.parametrize("function, breaks", [
    (kept_and_put_back, 0), (forked, 0), (seeded, 0), (put_back_while_handling, 0), (put_back_behind_a_break, 1), (between_draws, 0),
    (seeded_in_turns, 1), (two_states, 0), (read_and_forked, 0), (put_back_twice, 0), (only_put_back, 0), (draw_behind_a_state, 0), (seeded_and_refused, None), (wrong_state, None), (wrong_seed, None),
])  # fmt: skip
def test_states_of_the_generator(function, breaks):
    check(function, vec(2), graphs=None, breaks=breaks)


STEPS = [read_and_forked, between_draws, seeded_in_turns, kept_and_put_back, put_back_twice]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("function", STEPS, ids=lambda function: function.__name__)
def test_states_between_draws_with_gradients(function, backend):
    compiled = strict_compile(function, backend=backend)
    for seed in range(3):
        outcomes = []
        for one in (function, compiled):
            torch.manual_seed(seed)
            x = vec(2, grad=True)
            found = tensors_of(one(x * 3))
            sum(tensor.double().sum() for tensor in found if tensor.requires_grad).backward()
            outcomes.append([x.grad, torch.rand(2), *found])
        torch.testing.assert_close(*outcomes)


def tensors_of(found):
    parts = found if isinstance(found, tuple | list) else [found]
    return [
        one for part in parts for one in (part if isinstance(part, list) else [part])
        if isinstance(one, torch.Tensor)
    ]  # fmt: skip


def test_a_seed_that_varies_compiles_once():
    def f(x, step):
        torch.manual_seed(step)
        return x + torch.rand(2)

    compiled = strict_compile(f)
    for step in range(2, 9):
        expected = f(vec(2), step), torch.rand(2)
        found = compiled(vec(2), step), torch.rand(2)
        torch.testing.assert_close(found, expected)
    report = compiled.framejit.explain()
    assert len(report.captures) == 2 and not report.breaks


def test_a_graph_that_starts_over_restores_the_state():
    """The graph has drawn and restored before an operator raises."""

    def f(x, index):
        state = torch.get_rng_state()
        drawn = torch.rand(2)
        torch.set_rng_state(state)
        return drawn + x[index] + torch.rand(2)

    compiled = strict_compile(f)
    for index in (0, 0, 5, 1):
        outcomes = []
        for one in (f, compiled):
            torch.manual_seed(index)
            try:
                found = one(vec(2, 2), torch.tensor(index))
            except IndexError as error:
                found = str(error)
            outcomes.append((found, torch.rand(2)))
        assert str(outcomes[0]) == str(outcomes[1])


def test_seeded_without_a_draw():
    check(seeded_only, vec(2), [], graphs=0)


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
def test_states_of_the_generator_by_other_backends(backend):
    compiled = strict_compile(forked, backend=backend)
    for seed in range(3):
        torch.manual_seed(seed)
        expected = forked(vec(2)), torch.rand(2)
        torch.manual_seed(seed)
        found = compiled(vec(2)), torch.rand(2)
        assert torch.equal(found[0], expected[0]) and torch.equal(found[1], expected[1])
    assert len(compiled.framejit.explain().captures) == 1


@pytest.mark.parametrize(
    "draw", [torch.Tensor.cauchy_, lambda t: t.geometric_(0.5)], ids=["cauchy", "geometric"]
)
def test_a_graph_that_raises_behind_a_draw(draw):
    def f(x, index):
        drawn = draw(torch.empty(3))
        return drawn + x[index].sum()

    check(f, vec(2), torch.tensor([5]), graphs=None, breaks=None)
