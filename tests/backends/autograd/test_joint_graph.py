"""Graphs with gradients put together operator by operator: gradients, writes and random numbers are
eager's, equal operators are traced once, and backends that are tried on one graph share it."""

from __future__ import annotations

import framejit
import pytest
import torch
from framejit.backends.autograd import graph_parts as parts
from framejit.backends.autograd import min_cut, partitioner
from framejit.backends.autograd import shared_partition as shared
from framejit.backends.autograd import traced_operators as operators
from torch import nn
from torch.nn import functional as F


@pytest.fixture
def taken(monkeypatch):
    """For each graph compiled, whether it was put together operator by operator."""
    found = []
    traced = shared.trace_and_partition

    def told(gm, decompositions):
        two = traced(gm, decompositions)
        found.append(two is not None)
        return two

    monkeypatch.setattr(shared, "trace_and_partition", told)
    return found


def perceptron(x, y):
    return F.layer_norm(F.gelu(F.linear(x, y, x[0])), (6,))


def heads(x, y):
    q, k, v = (x @ y.t()).view(2, 2, 3, 2).transpose(1, 2).unbind(1)
    return (torch.softmax(q @ k.transpose(-2, -1), -1) @ v).transpose(0, 1).reshape(2, -1)


def used_twice(x, y):
    z = x * y[:4]
    return z.exp() + z.sin() * x + z.relu()


def in_place(x, y):
    z = x * 2
    z += y[:4]
    z[1] = x[2] * 3
    z.relu_()
    return F.hardswish(z.mul(2), True) + F.relu(z - 1, inplace=True)


def part_of_several(x, y):
    values, places = torch.max(x, 0)
    first, _, last = torch.split(y, 2)
    return values * 2 + first.sum(0), places, last.sum()


def without_gradients(x, y):
    with torch.no_grad():
        scale = x.abs().mean()
    return x * scale + x.detach() * y[:4]


def constants(x, y):
    return (
        torch.where(x > 0, x, torch.tensor(0.5)) + x.new_tensor([1.0] * 6) + torch.full((6,), 2.0)
    )


def reduced(x, y):
    return (x / x.norm(dim=1, keepdim=True)).expand(2, 4, 6).sum(0).var(1), y.mean()


def random(x, y):
    return F.dropout(x, 0.5) * torch.rand(6) + F.dropout(y[:4], 0.3)


def lower_precision(x, y):
    with torch.autocast("cpu", torch.bfloat16):
        return F.linear(x, y).float() * 2


def shifted(x, y):
    image = torch.stack([x, x * 2]).view(2, 1, 4, 6)
    made = F.conv2d(image, y[:2, :4].reshape(2, 1, 2, 2), stride=2).flatten(2).transpose(1, 2)
    return torch.cat([made[:, :1] * 2, made], 1)


ALL = [
    perceptron, heads, used_twice, in_place, part_of_several, without_gradients, constants, reduced, random, lower_precision, shifted,
]  # fmt: skip


def outcome(function, *, backend=None):
    torch.manual_seed(0)
    x, y = torch.randn(4, 6, requires_grad=True), torch.randn(6, 6, requires_grad=True)
    torch.manual_seed(1)
    results = (function if backend is None else framejit.compile(function, backend=backend))(x, y)
    results = results if isinstance(results, tuple) else (results,)
    # Weights: the squares of what a norm gives have the same sum whatever its input is, and
    # gradients that are nothing but rounding.
    sum(
        (result.square() * torch.linspace(1, number + 2, result.numel()).view_as(result)).sum()
        for number, result in enumerate(results)
        if result.requires_grad
    ).backward()
    return [*results, x.grad, y.grad], [result.requires_grad for result in results]


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
@pytest.mark.parametrize("function", ALL, ids=lambda function: function.__name__)
def test_gradients_are_eagers(function, backend, taken):
    got, trains = outcome(function, backend=backend)
    want, wanted = outcome(function)
    assert taken == [function is not lower_precision]
    assert trains == wanted
    for one, other in zip(got, want, strict=True):
        if other is None:
            assert one is None
            continue
        assert (one.dtype, one.stride()) == (other.dtype, other.stride())
        exact = backend == "aot_eager"
        torch.testing.assert_close(one, other, rtol=0 if exact else 1e-5, atol=0 if exact else 1e-5)


def sizes_as_arguments(x, y):
    rows, columns = x.shape
    weights = y[:1].expand(rows, columns).reshape(rows * columns)
    return (x.reshape(-1) * weights).view(columns, rows).sum(0) / rows + rows


def averaged(x, y):
    return (x.mean() * y.var(1)).sum(), x.sum(1).unsqueeze(1) * y.mean(0)


def in_halves(x, y):
    half = x.shape[0] // 2
    return x[half:] * 2 + x[:half].exp(), (x[half:].t() * x.shape[1]).sum()


VARYING = [
    perceptron, used_twice, in_place, without_gradients, constants, reduced, random, sizes_as_arguments, averaged, in_halves,
]  # fmt: skip


ANY_ROWS = (perceptron, constants, sizes_as_arguments, averaged, in_halves)


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
@pytest.mark.parametrize("function", VARYING, ids=lambda function: function.__name__)
def test_gradients_are_eagers_where_sizes_vary(function, backend, taken):
    compiled = framejit.compile(function, backend=backend, dynamic=True)
    for rows in (4, 8, 6) if function in ANY_ROWS else (4, 4):
        columns = 6 if function in (perceptron, constants, random) else rows + 2
        found = []
        for run in (function, compiled):
            torch.manual_seed(rows)
            x = torch.randn(rows, columns, requires_grad=True)
            y = torch.randn(6, columns, requires_grad=True)
            torch.manual_seed(1)
            results = run(x, y)
            results = results if isinstance(results, tuple) else (results,)
            weights = (torch.linspace(1, 2, one.numel()).view_as(one) for one in results)
            sum(
                (one.square() * weight).sum()
                for one, weight in zip(results, weights, strict=True)
                if one.requires_grad
            ).backward()
            found.append([*results, x.grad, *([] if y.grad is None else [y.grad])])
        for want, got in zip(*found, strict=True):
            assert (got.dtype, got.stride()) == (want.dtype, want.stride())
            exact = backend == "aot_eager"
            close = {"rtol": 0, "atol": 0} if exact else {"rtol": 1e-3, "atol": 1e-4}
            torch.testing.assert_close(got, want, **close)
    assert taken and all(taken)


def test_incoming_gradients_of_varying_sizes_may_lie_otherwise_or_be_missing(taken):
    def two(x, y):
        inner = (x + 1).exp().sin()
        product = inner * x.cos() * 2
        return product, (product + inner * y).exp().sum()

    compiled = framejit.compile(two, backend="native", dynamic=True)
    for rows in (4, 5):
        found = []
        for run in (two, compiled):
            x, y = torch.ones(rows, 6, requires_grad=True), torch.ones(6, requires_grad=True)
            first, other = run(x, y)
            first.t().contiguous().backward(
                torch.arange(6.0 * rows).view(6, rows), retain_graph=True
            )
            found.append([x.grad.clone()])
            assert y.grad is None
            other.backward()
            found[-1] += [x.grad, y.grad]
        torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-4)
    assert taken == [True, True]


def test_a_backward_pass_that_needs_no_size_gets_gradients_of_varying_layouts(taken):
    compiled = framejit.compile(lambda x: x + 3, backend="native", dynamic=True)
    for rows in (4, 5):
        x = torch.ones(rows, 3, requires_grad=True)
        compiled(x).backward(torch.arange(3.0 * rows).view(3, rows).t())
        assert torch.equal(x.grad, torch.arange(3.0 * rows).view(3, rows).t())
    assert taken == [True]


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
def test_a_number_that_varies_is_a_factor_of_a_gradient(backend, taken):
    """It is no tensor's size."""
    compiled = framejit.compile(lambda x, n: x * n, backend=backend)
    for factor in (2, 5, 7):
        x = torch.ones(4, 3, requires_grad=True)
        compiled(x, factor).sum().backward()
        assert torch.equal(x.grad, torch.full((4, 3), float(factor)))
    assert compiled.framejit.compiles == 2 and taken == [True, True]


def test_a_tensor_is_not_kept_for_its_size(taken):
    """An input whose size alone the backward pass needs may be written in between."""

    def function(x, weight):
        return (x.detach() * 0 + weight).sum(1)

    compiled = framejit.compile(function, backend="native", dynamic=True)
    weight = torch.ones(3, requires_grad=True)
    for rows in (4, 5):
        x = torch.ones(rows, 3)
        result = compiled(x, weight)
        x.mul_(2)
        weight.grad = None
        result.sum().backward()
        torch.testing.assert_close(weight.grad, torch.full((3,), float(rows)))
    assert taken == [True]


class Normed(nn.Sequential):
    def __init__(self):
        super().__init__(
            nn.Conv2d(3, 4, 3),
            nn.BatchNorm2d(4),
            nn.ReLU(inplace=True),
            nn.Conv2d(4, 4, 3),
            nn.BatchNorm2d(4),
        )


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
def test_running_statistics_are_written(backend, taken):
    states = []
    for compiled in (False, True):
        torch.manual_seed(0)
        module = Normed()
        run = framejit.compile(module, backend=backend) if compiled else module
        for step in range(2):
            run(
                torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(step))
            ).square().mean().backward()
        states.append(
            {**module.state_dict(), **{name: one.grad for name, one in module.named_parameters()}}
        )
    assert taken == [True]
    for name, value in states[0].items():
        torch.testing.assert_close(states[1][name], value, rtol=1e-4, atol=1e-6, msg=name)


def windows(x, y):
    return x[1:], y.detach() * 2


def unseen_by_autograd(x, y):
    z = x.clone()
    with torch.no_grad():
        z.clamp_(min=0.1)
    return z * x


def unseen_through_a_window(x, y):
    z = x * 3
    z.detach().clamp_(min=0.1)
    return z * x


@pytest.mark.parametrize(
    "function",
    [windows, unseen_by_autograd, unseen_through_a_window],
    ids=lambda function: function.__name__,
)
def test_what_operators_do_not_say_takes_the_other_way(function, taken):
    got, _ = outcome(function, backend="aot_eager")
    want, _ = outcome(function)
    assert taken == [False]
    for one, other in zip(got, want, strict=True):
        assert (one is None and other is None) or (
            torch.equal(one, other) and one._is_view() == other._is_view()
        )


def test_a_backward_pass_can_be_run_twice_and_be_differentiated(taken):
    x, y = torch.randn(4, 6, requires_grad=True), torch.randn(6, 6, requires_grad=True)
    found = []
    for run in (used_twice, framejit.compile(used_twice, backend="native")):
        result = run(x, y)
        first = torch.autograd.grad(result.sum(), [x, y], retain_graph=True)
        again = torch.autograd.grad(result.sum(), [x, y], create_graph=True)
        second = torch.autograd.grad(sum(one.square().sum() for one in again), [x, y])
        found.append([*first, *again, *second])
    assert taken == [True]
    for want, got in zip(*found, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


def test_gradients_may_be_missing_or_lie_otherwise(taken):
    def two(x, y):
        inner = (x + 1).exp().sin()
        product = (
            inner * x.cos() * 2
        )  # what leads to it is one node with two outputs, as the other result takes `inner`, too
        return product, (product + inner * y[:4]).exp().sum()

    found = []
    for run in (two, framejit.compile(two, backend="native")):
        x, y = torch.ones(4, 6, requires_grad=True), torch.ones(6, 6, requires_grad=True)
        product, other = run(x, y)
        product.t().contiguous().backward(torch.arange(24.0).view(6, 4), retain_graph=True)
        found.append([x.grad.clone(), y.grad])
        other.backward()
        found.append([x.grad.clone(), y.grad])
    assert taken == [True, True] and found[0][1] is None and found[2][1] is None
    for want, got in zip([*found[0][:1], *found[1]], [*found[2][:1], *found[3]], strict=True):
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
def test_precision_is_the_callers(backend, taken):
    found = []
    for run in (perceptron, framejit.compile(perceptron, backend=backend)):
        torch.manual_seed(0)
        x, y = torch.randn(4, 6, requires_grad=True), torch.randn(6, 6, requires_grad=True)
        with torch.autocast("cpu", torch.bfloat16):
            result = run(x, y)
        result.float().square().sum().backward()
        found.append([result, x.grad, y.grad])
    assert taken == [True]
    for want, got in zip(*found, strict=True):
        assert got.dtype == want.dtype
        torch.testing.assert_close(got, want, rtol=0.1, atol=0.1 if backend == "native" else 0.01)


class Blocks(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.blocks = nn.ModuleList(
            [nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8)) for _ in range(count)]
        )

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return x


def counted(monkeypatch, module, name):
    calls = []
    function = getattr(module, name)
    monkeypatch.setattr(
        module, name, lambda *args, **kwargs: calls.append(args) or function(*args, **kwargs)
    )
    return calls


def test_more_equal_blocks_are_no_more_to_trace_or_to_decide(monkeypatch):
    traced, decided = (
        counted(monkeypatch, operators, "trace_operators"),
        counted(monkeypatch, min_cut, "minimum_cut"),
    )
    numbers = []
    for count in (3, 9):
        framejit.compile(Blocks(count), backend="native")(
            torch.randn(4, 8, requires_grad=True)
        ).sum().backward()
        numbers.append((len(traced), len(decided)))
        traced.clear()
        decided.clear()
    assert numbers[0] == numbers[1]


@pytest.mark.parametrize("fast", [True, False])
def test_large_values_are_rather_computed_again_where_that_is_fast(monkeypatch, fast):
    monkeypatch.setattr(min_cut, "LARGE_BYTES", 4 * 32 * 64)
    monkeypatch.setattr(min_cut, "FAST_DEVICES", {"cpu"} if fast else set())

    def step(x, y, z, w):
        gate, up = x @ y, x @ z
        return (F.silu(gate) * up) @ w

    built = counted(monkeypatch, partitioner, "backward_graph")
    torch.manual_seed(0)
    inputs = [
        torch.randn(size, requires_grad=True) for size in ((32, 16), (16, 64), (16, 64), (64, 8))
    ]
    made = framejit.compile(step, backend="native")(*inputs)
    ((_, saved, _),) = built
    assert [node.meta["val"].numel() for node in saved].count(32 * 64) == (2 if fast else 3)
    weights = torch.randn(32, 8)
    gradients = torch.autograd.grad((made * weights).sum(), inputs)
    torch.testing.assert_close(
        gradients, torch.autograd.grad((step(*inputs) * weights).sum(), inputs)
    )


def test_backends_that_are_tried_share_one_trace(monkeypatch, tmp_path):
    monkeypatch.setenv("FRAMEJIT_CACHE_DIR", str(tmp_path))
    traced, compiled = (
        counted(monkeypatch, shared, "trace_and_partition"),
        counted(monkeypatch, parts, "compile_partition"),
    )
    graphs = []
    framejit.register_backend("first_of_two", wants="aten")(
        lambda gm, examples: graphs.append(gm) or gm.forward
    )
    framejit.register_backend("second_of_two", wants="aten")(
        lambda gm, examples: graphs.append(gm) or gm.forward
    )
    options = {"candidates": ("first_of_two", "second_of_two"), "isolate": False, "remember": False}
    module = Blocks(2)
    run = framejit.compile(module, backend="autotune", options=options)
    run(torch.randn(4, 8)).sum().backward()
    assert (len(traced), len(compiled)) == (1, 2)
    assert len({id(node) for gm in graphs for node in gm.graph.nodes}) == sum(
        len(gm.graph.nodes) for gm in graphs
    )
