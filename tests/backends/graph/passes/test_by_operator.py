"""Graphs put together operator by operator: results, writes and random numbers are eager's; equal
operators are looked at once."""

from __future__ import annotations

import framejit
import pytest
import torch
from framejit.backends.graph.passes import by_operator, functional
from framejit.backends.native import backend as native
from framejit.backends.native.fuse import fuse
from torch import nn
from torch.nn import functional as F


@pytest.fixture
def taken(monkeypatch):
    """For each graph compiled, the operators that were traced for it; None where the whole was
    traced."""
    found = []

    def told(gm, trace):
        traced = []
        result = by_operator.by_operator(
            gm, lambda run, inputs: traced.append(len(run.__self__.different)) or trace(run, inputs)
        )
        found.append(None if result is None else traced[0])
        return result

    monkeypatch.setattr(functional, "by_operator", told)
    return found


def in_place(x, y):
    x = x * 2
    x += 1
    z = x.relu_()
    return x + z, x.view(-1)


def into_inputs(x, y):
    y[1] = 3
    y.add_(1)
    values, places = torch.max(x, 0)
    return values + y, places


def pieces(x, y):
    first, second = x.chunk(2)
    return torch.stack([second, first]).sum(0) + y


def random(x, y):
    return F.dropout(x, 0.5) + F.dropout(x, 0.5) * torch.rand(4) + torch.rand(4)


def shifted(x, y):
    return x[1:, 1:].t().contiguous() + torch.zeros(3, 3).fill_(y.shape[0])


def the_same_again(x, y):
    return (x + x, x + x.clone(), x.contiguous(), x * True, x * 1, x * 1.0, x - 0.0, x * -0.0)


def through_a_view(x, y):
    x = x * 2
    flat = x.view(-1)
    x.add_(1)
    return flat


def switching_modes(x, y):
    with torch.enable_grad():
        z = x * 2
    with torch.autocast("cpu", torch.bfloat16):
        return z @ x, z.add_(1)


def half_of_an_input(x, y):
    first, second = x.chunk(2)
    first.relu_()
    return first + second


def equal_results(x, y):
    first, second = (x * y).abs(), (x * y).abs()
    return first, second, second[1:], (x * y).amax() + (x * y).amax()


def equal_until_written(x, y):
    first, second, third = x * y, x * y, x * y
    first.add_(1)
    return first + second, third


ONE_BY_ONE = (
    in_place,
    into_inputs,
    pieces,
    random,
    shifted,
    the_same_again,
    equal_results,
    equal_until_written,
)
AS_A_WHOLE = (through_a_view, half_of_an_input, switching_modes)


@pytest.mark.parametrize(
    "function", ONE_BY_ONE + AS_A_WHOLE, ids=lambda function: function.__name__
)
def test_equals_eager(function, taken):
    calls = []
    for run in (function, framejit.compile(function, backend="native")):
        torch.manual_seed(0)
        inputs = [torch.randn(4, 4), torch.randn(4)]
        with torch.no_grad():
            calls.append((run(*inputs), inputs, torch.rand(1)))
    torch.testing.assert_close(calls[1], calls[0], rtol=0, atol=0, check_stride=True)
    assert (taken[0] is None) == (function in AS_A_WHOLE)


def test_equal_results_share_no_memory():
    with torch.no_grad():
        first, second, part, _ = framejit.compile(equal_results, backend="native")(
            torch.ones(4, 4), torch.ones(4)
        )
    first.zero_()
    assert second.min() > 0
    part.zero_()
    assert second[1:].max() == 0


def test_what_equal_operators_make_of_one_input_is_made_once(monkeypatch):
    made = []
    kept = native.compile_aten
    monkeypatch.setattr(
        native, "compile_aten", lambda gm, *given, **how: made.append(gm) or kept(gm, *given, **how)
    )

    def attentions(q, mask):
        for _ in range(3):
            q = F.scaled_dot_product_attention(q, q, q, attn_mask=mask)
        return q

    inputs = torch.randn(1, 2, 8, 4), torch.ones(8, 8).tril() > 0
    with torch.no_grad():
        torch.testing.assert_close(
            framejit.compile(attentions, backend="native")(*inputs), attentions(*inputs)
        )
    targets = [node.target for node in made[0].graph.nodes]
    assert targets.count(torch.ops.aten.where.self) == 1


def sizes_as_arguments(x, y):
    rows, columns = x.shape
    flat = x.view(rows * columns, 1) + torch.arange(2 * rows).view(rows, 2)[:1]
    return flat.view(rows, columns, 2).sum(0), x.new_zeros(columns + 1, rows) + rows, x.mean(1)


def returned_sizes(x, y):
    return x * x.shape[0], x.shape[0] * x.shape[1], x.shape[1] + 1


def inputs_that_begin_late(x, y):
    half = x.shape[0] // 2
    return x[half:] * 2 + x[:half], x[half:].t()


def normed(x, y):
    rows, columns = x.shape
    image = F.group_norm(x.view(rows, 1, columns, 1).expand(rows, 4, columns, 2), 2)
    return F.layer_norm(image.flatten(1), (8 * columns,)).softmax(0).var(1)


def unusual_expressions(x, y):
    rows, columns = x.shape
    return F.group_norm(x.view(2, rows // 2, columns, 1), rows // 2) * 2


def sizes_of_values(x, y):
    return x[y[0] > -9] * 2


VARYING = (*ONE_BY_ONE[:5], equal_results, sizes_as_arguments, returned_sizes, normed)
VARYING_AS_A_WHOLE = (*AS_A_WHOLE, sizes_of_values, unusual_expressions)


@pytest.mark.parametrize(
    "function",
    (*VARYING, inputs_that_begin_late, *VARYING_AS_A_WHOLE),
    ids=lambda function: function.__name__,
)
@pytest.mark.sweep(3)
def test_equals_eager_with_sizes_that_vary(function, taken):
    compiled = framejit.compile(function, backend="native", dynamic=True)
    square = function in (shifted, switching_modes)
    for rows, columns in ((4, 4), (4, 4)) if square else ((4, 6), (6, 6), (8, 2)):
        calls = []
        for run in (function, compiled):
            torch.manual_seed(0)
            inputs = [torch.randn(rows, columns), torch.randn(columns)]
            if function in (random, into_inputs):
                inputs = [torch.randn(rows, 4), torch.randn(4)]
            with torch.no_grad():
                calls.append((run(*inputs), inputs, torch.rand(1)))
        exact = function not in (normed, sizes_as_arguments)
        torch.testing.assert_close(
            calls[1], calls[0], rtol=0 if exact else 1e-5, atol=0 if exact else 1e-6,
            check_stride=True,
        )  # fmt: skip
    if function in (*VARYING, inputs_that_begin_late):
        assert None not in taken


def test_equal_operators_on_equal_varying_sizes_are_traced_once(taken):
    def function(x):
        for _ in range(5):
            x = F.linear(x.relu() + 1, torch.ones(x.shape[1], x.shape[1]))
        return x

    compiled = framejit.compile(function, backend="native", dynamic=True)
    x = torch.randn(3, 7)
    torch.testing.assert_close(compiled(x), function(x))
    assert taken == [4]  # relu, add, ones, linear


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


def test_many_equal_blocks_are_looked_at_once(taken, monkeypatch):
    looked = []
    for module, name in ((fuse, "merge_or_inline"), (fuse, "simplify"), (native, "print_c")):
        kept = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda *given, kept=kept, name=name: looked.append(name) or kept(*given)
        )
    counts = []
    for blocks in (3, 9):
        looked.clear()
        model, x = nn.Sequential(*(Block() for _ in range(blocks))), torch.randn(5, 8)
        with torch.no_grad():
            want = model(x)
            torch.testing.assert_close(framejit.compile(model, backend="native")(x), want)
        counts.append(sorted(looked))
    assert taken[0] == taken[1] > 3
    assert counts[0] == counts[1] != []


@pytest.mark.parametrize("training", [False, True])
def test_the_facts_of_a_node_are_found_once_for_all_its_copies(training, monkeypatch):
    asked = []
    kept = by_operator.draws_random_numbers
    monkeypatch.setattr(
        by_operator, "draws_random_numbers", lambda node: asked.append(node) or kept(node)
    )
    counts = []
    for blocks in (3, 9):
        asked.clear()
        model, x = nn.Sequential(*(Block() for _ in range(blocks))), torch.randn(5, 8)
        with torch.set_grad_enabled(training):
            torch.testing.assert_close(framejit.compile(model, backend="native")(x), model(x))
        counts.append(len(asked))
    assert counts[0] == counts[1] > 0
