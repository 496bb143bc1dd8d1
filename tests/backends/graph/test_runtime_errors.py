"""What a node may do: whether it draws random numbers is told from its arguments, and must never be
denied where it does."""

from __future__ import annotations

import framejit
import pytest
import torch
import torch.nn.functional as F
from framejit.backends.graph.runtime_errors import draws_random_numbers, may_draw, may_raise

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


def out_of_range(x):
    x.sum().index_fill_(0, torch.tensor([1]), -1)
    return x * 2


def out_of_range_and_overwritten(x):
    y = x[torch.tensor([7])]
    y = x + 1
    return y


def out_of_range_behind_the_last_read(x):
    total = x.sum()
    y = total * 2
    total.index_fill_(0, torch.tensor([1]), -1)
    return y


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native", "torchscript"])
@pytest.mark.parametrize(
    "f",
    [out_of_range, out_of_range_and_overwritten, out_of_range_behind_the_last_read],
    ids=lambda f: f.__name__,
)
@pytest.mark.parametrize("history", [False, True], ids=["", "history"])
def test_operators_that_nobody_reads_raise(f, history, backend):
    x = torch.arange(4.0, requires_grad=history) * 1
    with pytest.raises(IndexError):
        f(x)
    with pytest.raises(IndexError):
        framejit.compile(f, backend=backend)(x)


def adds_out_of_place(m, x):
    with torch.no_grad():
        rows = x.unfold(-1, 2, 1)
        torch.add(rows, 2, out=rows)
    return m * 2, x


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
def test_grad_mode_after_a_trace_that_was_given_up(backend):
    """Where sizes vary a window may overlap itself: tracers refuse to write into it, inside
    no_grad()."""
    with framejit.config.patch(strict=True):
        compiled = framejit.compile(adds_out_of_place, backend=backend, dynamic=True)
    for rows in (2, 3, 4):
        x, y = torch.zeros(rows, 2), torch.zeros(rows, 2)
        result, same = compiled(torch.ones(3, requires_grad=True), x)
        adds_out_of_place(torch.ones(3), y)
        assert result.requires_grad and same is x and torch.is_grad_enabled() and torch.equal(x, y)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native", "torchscript"])
def test_integers_that_an_operator_refuses(backend):
    def f(x, y):
        return x.lerp_(y, 0.5) + 1

    for fn in (f, framejit.compile(f, backend=backend)):
        with pytest.raises(NotImplementedError):
            fn(torch.arange(4), torch.arange(4))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_windows_of_varying_sizes_that_are_written_without_gradients(backend):
    def f(x):
        torch.relu_(x.unfold(-1, 2, 1))
        return x * 2

    with framejit.config.patch(strict=True):
        compiled = framejit.compile(f, backend=backend, dynamic=True)
    for rows in (2, 3, 4):
        x, y = (
            torch.arange(-3.0, 2 * rows - 3).view(rows, 2),
            torch.arange(-3.0, 2 * rows - 3).view(rows, 2),
        )
        assert torch.equal(compiled(x), f(y)) and torch.equal(x, y)


UNREAD = {
    "index_fill_": lambda x, places: x.index_fill_(0, places, 3.0).fill_(1),
    "setitem": lambda x, places: (x.__setitem__(places, 0.0), x.zero_())[1],
    "scatter_": lambda x, places: x.scatter_(0, places, 1.0).copy_(places[:1].float()),
    "gather": lambda x, places: x.gather(0, places).zero_(),
}


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
@pytest.mark.parametrize("name", UNREAD)
def test_an_error_in_what_is_overwritten_is_raised(name, backend):
    f = UNREAD[name]
    handle = framejit.compile(lambda x, places: f(x + 1, places), backend=backend)
    places = torch.tensor([0, 2])
    assert torch.equal(handle(torch.ones(3), places), f(torch.ones(3) + 1, places))
    with pytest.raises((IndexError, RuntimeError), match="out of"):
        handle(torch.ones(3), torch.tensor([0, 7]))


@pytest.mark.parametrize("rows", [slice(2), slice(None)])
def test_what_is_read_besides_is_compiled(rows):
    def f(x, places):
        x = x + 1
        x[places] = 0.0
        kept = x[rows].clone()
        x[:2].fill_(4)
        return x, kept.copy_(kept)

    handle = framejit.compile(f, backend="native")
    x, places = torch.ones(3), torch.tensor([0, 2])
    for mine, yours in zip(handle(x, places), f(x, places), strict=True):
        assert torch.equal(mine, yours)


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


@pytest.mark.parametrize(
    ("function", "raises"),
    [
        (lambda x, n: x / n, False),
        (lambda x, n: torch.div(x, n), False),
        (lambda x, n: x // n, True),
        (lambda x, n: torch.div(x, n, rounding_mode="floor"), True),
        (lambda x, n: x % n, True),
        (lambda x, n: x[n], True),
        (lambda x, n: x.sqrt().rsqrt().detach(), False),
        (lambda x, n: torch._foreach_sqrt([x])[0], False),
        (lambda x, n: torch.inverse(x.diag() + 0.5), True),
        (lambda x, n: torch.linalg.qr(x.diag())[0], True),
        (lambda x, n: torch.qr(x.diag())[0], True),
        (lambda x, n: torch.det(x.diag()), True),
        (lambda x, n: torch.logdet(x.diag() + 1), True),
        (lambda x, n: torch.svd(x.diag())[1], True),
    ],
)
def test_operators_that_may_raise(function, raises):
    found = []

    def keep(gm, examples):
        found.append(any(map(may_raise, gm.graph.nodes)))
        return gm.forward

    framejit.compile(function, backend=keep)(torch.arange(3.0), torch.tensor([1]))
    assert found == [raises]
