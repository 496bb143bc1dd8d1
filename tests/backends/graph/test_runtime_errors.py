"""Errors that torch's operators raise for the values of tensors are raised by compiled code too, also
where nobody reads the result."""

from __future__ import annotations

import framejit
import pytest
import torch
from framejit.backends.graph.runtime_errors import may_raise, raises_for_integers, raises_for_values


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


@pytest.mark.parametrize(
    ("function", "raises"),
    [
        (lambda x, n: x / n, False),
        (lambda x, n: torch.div(x, n), False),
        (lambda x, n: x // n, True),
        (lambda x, n: torch.div(x, n, rounding_mode="floor"), True),
        (lambda x, n: x % n, True),
        (lambda x, n: x[n], True),
        (lambda x, n: n[:1] + x[0], False),
        (lambda x, n: x.__setitem__(n[:1], 0), True),
        (lambda x, n: x.sqrt().rsqrt().detach(), False),
        (lambda x, n: torch._foreach_sqrt([x])[0], False),
        (lambda x, n: torch.inverse(x.diag() + 0.5), True),
        (lambda x, n: torch.linalg.qr(x.diag())[0], True),
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


def test_names_are_searched_once():
    raises_for_values.cache_clear()
    raises_for_integers.cache_clear()
    graph = torch.fx.symbolic_trace(lambda x: torch.sin(torch.sin(torch.sin(x)))).graph
    assert not any(map(may_raise, graph.nodes))
    calls = [one.cache_info() for one in (raises_for_values, raises_for_integers)]
    assert [(one.misses, one.hits) for one in calls] == [(3, 2), (3, 2)]
