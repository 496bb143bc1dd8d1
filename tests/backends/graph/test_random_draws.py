"""Which nodes draw random numbers, from their arguments; draws whose results nobody reads still
happen."""

from __future__ import annotations

import framejit
import pytest
import torch
import torch.nn.functional as F
from framejit.backends.graph.random_draws import draws_random_numbers, may_draw

X = torch.ones(2, 3, 4)
DROPOUTS = [
    F.dropout,
    F.alpha_dropout,
    F.dropout1d,
    F.feature_alpha_dropout,
    torch.dropout,
    torch.alpha_dropout,
    torch.feature_dropout,
]


def node_of(target, *args, **kwargs):
    graph = torch.fx.Graph()
    placeholders = [
        graph.placeholder(f"layer_attention_dropout_{i}") for i, arg in enumerate(args) if arg is X
    ]
    return graph.call_function(
        target, tuple(placeholders) + tuple(arg for arg in args if arg is not X), kwargs
    )


def moves_the_generator(target, *args, **kwargs):
    before = torch.get_rng_state()
    target(*args, **kwargs)
    return not torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("target", DROPOUTS, ids=lambda f: f"{f.__module__}.{f.__name__}")
@pytest.mark.parametrize(("p", "training"), [(0.5, True), (0.5, False), (0.0, True)])
def test_dropouts(target, p, training):
    assert draws_random_numbers([node_of(target, X, p, training)]) == moves_the_generator(
        target, X, p, training
    )


@pytest.mark.parametrize("drawn", [True, False])
def test_dropout_by_keywords(drawn):
    assert draws_random_numbers([node_of(F.dropout, X, training=drawn)]) == moves_the_generator(
        F.dropout, X, training=drawn
    )


@pytest.mark.parametrize("p", [0.0, 0.5])
def test_attention(p):
    target = F.scaled_dot_product_attention
    assert draws_random_numbers([node_of(target, X, X, X, None, p)]) == moves_the_generator(
        target, X, X, X, None, p
    )
    assert draws_random_numbers([node_of(target, X, X, X, dropout_p=p)]) == moves_the_generator(
        target, X, X, X, dropout_p=p
    )


@pytest.mark.parametrize(("p", "training"), [(0.5, True), (0.0, True), (0.5, False)])
def test_native_dropout(p, training):
    target = torch.ops.aten.native_dropout.default
    assert draws_random_numbers([node_of(target, X, p, training)]) == moves_the_generator(
        target, X, p, training
    )


def test_names_of_inputs_are_not_operators():
    assert not draws_random_numbers(list(node_of(torch.sin, X).graph.nodes))


def test_others_may_draw():
    def dropout(x, p, training):
        return x

    assert may_draw(node_of(dropout, X, 0.0, False))  # of it nothing is known
    assert draws_random_numbers([node_of(torch.rand, 3)])


def test_a_chance_that_varies_may_draw():
    node = node_of(F.dropout, X)
    node.args = (node.args[0], node.graph.placeholder("p"), True)
    assert draws_random_numbers([node])


@pytest.mark.parametrize(("training", "asked"), [(True, True), (False, False)])
def test_generators_are_kept_only_where_they_may_be_needed(training, asked, monkeypatch):
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5)).train(training)
    compiled = framejit.compile(model, backend="eager")
    compiled(X)
    calls = []
    real = torch.get_rng_state
    monkeypatch.setattr(torch, "get_rng_state", lambda: calls.append(1) or real())
    compiled(X)
    assert bool(calls) == asked


def drawn_and_overwritten(x):
    drawn = torch.rand_like(x)
    drawn[..., 1:] = 1
    return x + 1


def drawn_for_a_write_that_is_lost(x):
    x = x * 1
    x.bernoulli_(0.5)
    x.fill_(0)
    return x + 1


def dropped_before_a_break(x):
    F.dropout(x)
    print(end="")
    return x + 1


def dropped_and_overwritten_behind_a_break(x):
    y = x + 3
    print(end="")
    z = F.dropout(y)
    z[...] = x
    return x * y


def drawn_into_a_list(x):
    y, z = x * 1, F.dropout(x)
    torch._foreach_add_([z, y], 2)
    return y


def read_only_for_its_sizes(x):
    view = x.view_as(x)
    return view.abs() + torch.zeros_like(torch.rand(view.shape)).fill_(3)


def drawn_by_functions(x):
    torch.empty(3).uniform_()
    torch.normal(0.0, 1.0, (3,))
    torch.randperm(4)
    torch.multinomial(x.detach().abs() + 1, 2)
    return x + 1


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("needs_grad", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native", "torchscript"])
@pytest.mark.parametrize(
    "fn",
    [
        drawn_and_overwritten,
        drawn_for_a_write_that_is_lost,
        dropped_before_a_break,
        dropped_and_overwritten_behind_a_break,
        drawn_into_a_list,
        read_only_for_its_sizes,
        drawn_by_functions,
    ],
)
def test_random_numbers_that_nobody_reads_are_drawn(fn, backend, needs_grad, dynamic):
    x = torch.arange(8.0).view(2, 4).requires_grad_(needs_grad)
    torch.manual_seed(0)
    expected, state = fn(x), torch.get_rng_state()
    torch.manual_seed(0)
    result = framejit.compile(fn, backend=backend, dynamic=dynamic)(x)
    assert torch.equal(result, expected)
    assert torch.equal(torch.get_rng_state(), state)


def test_numbers_read_only_for_their_sizes_are_drawn_beside_a_view_with_a_history():
    def f(x):
        return x.abs().max(), torch.empty_like(torch.rand(x.shape)).fill_(3)

    x = (torch.ones(40, requires_grad=True) * 1)[2:14].view(3, 4)
    torch.manual_seed(0)
    f(x)
    state = torch.get_rng_state()
    torch.manual_seed(0)
    framejit.compile(f, backend="native", dynamic=True)(x)
    assert torch.equal(torch.get_rng_state(), state)
