"""Programs that take gradients themselves: penalties, forces, inner loops, steps on leaves made
inside."""

from __future__ import annotations

import warnings

import framejit
import pytest
import torch
from torch import nn
from torch.autograd import grad
from torch.utils.checkpoint import checkpoint

from .harness import capture_events, strict_compile

torch.manual_seed(0)
LAYER = nn.Linear(3, 3)
CRITIC = nn.Sequential(
    nn.Conv2d(1, 2, 3, padding=1), nn.LeakyReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
)


def gradient_penalty(x):
    mixed = (torch.rand(len(x), 1) * x + 1).view(-1, 1, 3, 1).requires_grad_(True)
    score = CRITIC(mixed)
    (slope,) = grad(score, mixed, torch.ones_like(score), create_graph=True, retain_graph=True)
    return (slope.flatten(1).norm(2, dim=1) - 1).pow(2).mean()


def forces(x):
    at = x.detach().requires_grad_()
    energy = LAYER(at).tanh().sum(-1)
    return energy.detach(), -grad(energy.sum(), at)[0]


def second_derivative(x):
    (first,) = grad((x**3).sum(), x, create_graph=True)
    (second,) = grad(first[:, 0].sum(), x, create_graph=True)
    return first, second


def inner_steps(x):
    weight = LAYER.weight
    for _ in range(3):
        (step,) = grad((x @ weight).square().mean(), weight, create_graph=True)
        weight = weight - 0.1 * step
    return (x @ weight).mean()


def steps_without_a_graph(x):
    at = x.detach()
    for _ in range(3):
        at = at.requires_grad_()
        (step,) = grad(LAYER(at).square().sum(), at)
        at = (at - 0.1 * step).detach()
    return at


def of_a_part(x):
    y = x.exp()
    z = y.sin()
    (slope,) = grad(z.sum(), y, retain_graph=True)
    return z + slope


def of_parameters(x):
    loss = LAYER(x).sum()
    slopes = grad(loss, list(LAYER.parameters()), create_graph=True)
    return loss + sum(slope.square().sum() for slope in slopes)


def of_a_checkpoint(x):
    y = checkpoint(lambda a: a.sin().exp(), x, use_reentrant=False)
    return grad(y.sum(), x, create_graph=True)[0] + y


def of_a_dropout(x):
    y = nn.functional.dropout(x, 0.5)
    return grad(y.sum(), x, create_graph=True)[0] * y


def in_a_batch(x):
    return grad(x.sin().sum(0), x, torch.eye(3), is_grads_batched=True)[0]


def of_leaves_made_inside(x):
    columns = [x[:, i].detach().requires_grad_() for i in range(3)]
    return torch.stack(grad(sum(column.sin() for column in columns).sum(), columns))


def of_the_largest(x):
    return grad(x.topk(2).values.sum(), x)[0].mul_(2)


PROGRAMS = [
    gradient_penalty, forces, second_derivative, inner_steps, steps_without_a_graph, of_a_part, of_parameters, of_a_checkpoint,
    of_a_dropout, in_a_batch, of_leaves_made_inside, of_the_largest,
]  # fmt: skip


def outcome(call, rows):
    """Results and gradients of one call."""
    torch.manual_seed(rows)
    x = torch.randn(rows, 3, requires_grad=True)
    found = call(x)
    found = found if isinstance(found, tuple) else (found,)
    ends = [result.sum() for result in found if result.requires_grad]
    given = grad(ends, [x, *LAYER.parameters()], allow_unused=True) if ends else ()
    return [result.detach() for result in found], list(given), torch.get_rng_state()


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_in_eager_and_without_a_warning(program, backend, dynamic):
    handle = strict_compile(program, backend=backend, dynamic=dynamic)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for rows in (2, 2, 4, 5):
            torch.testing.assert_close(
                outcome(handle, rows), outcome(program, rows), rtol=1e-5, atol=1e-6
            )


def trains_itself(x):
    loss = (x * x).sin().sum()
    loss.backward()
    return x.grad * 2


@pytest.mark.parametrize("dynamic", [None, True])
def test_a_backward_pass_compiled_inside_a_program_is_not_captured_itself(dynamic):
    handle = framejit.compile(trains_itself, backend="native", dynamic=dynamic)
    seen = capture_events(handle)
    handle(torch.randn(7, 3, requires_grad=True))
    assert {event.function for event in seen if hasattr(event, "function")} == {"trains_itself"}


# Derivatives that pass through operations before the graph


def of_what_came(x, y):
    return grad(y.sum(), x, allow_unused=True)[0]


def on_two_ways(x, y):
    return grad((y * 2 + x).sum(), x)[0]


def of_both(x, y):
    return grad((y * 2 + x).sum(), [x, y])


def behind_a_break(x, y):
    z = x * x + y
    print(end="")
    return grad((z * 2).sum(), x, allow_unused=True)[0]


def of_a_parameter_used_before(x, y):
    z = LAYER(x)
    print(end="")
    return grad(LAYER(z).sum(), LAYER.weight)[0]


def in_a_loop_of_a_varying_length(x, y):
    out = (x[0] * x[0]).reshape(-1)
    return torch.stack([grad(out[j], x, retain_graph=True)[0][0] for j in range(out.nelement())])


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize(
    "function",
    [
        of_what_came,
        on_two_ways,
        of_both,
        behind_a_break,
        of_a_parameter_used_before,
        in_a_loop_of_a_varying_length,
    ],
)
def test_histories_from_before_the_graph_count(function, backend):
    compiled = framejit.compile(function, backend=backend)
    for rows in (3, 5, 4):
        outcomes = []
        for run in (function, compiled):
            x = torch.ones(rows, 3, requires_grad=True)
            outcomes.append(run(x, x * x))
        torch.testing.assert_close(*outcomes)


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_a_leaf_that_is_calculated_in_another_call(backend):
    compiled = framejit.compile(on_two_ways, backend=backend)
    x, y = (torch.ones(3, requires_grad=True) for _ in range(2))
    torch.testing.assert_close(compiled(x, y), torch.ones(3))
    torch.testing.assert_close(compiled(x, x * x), torch.full((3,), 5.0))


def of_an_input_with_a_history(x, y):
    return grad((y * 2).sum(), y)[0]


def of_what_the_graph_calculated(x, y):
    z = x * y
    return grad((z * z).sum(), z)[0]


@pytest.mark.parametrize("function", [of_an_input_with_a_history, of_what_the_graph_calculated])
def test_derivatives_that_end_in_the_graph_are_captured(function):
    x = torch.ones(3, requires_grad=True)
    compiled = framejit.compile(function, backend="native", fullgraph=True)
    torch.testing.assert_close(compiled(x, x * x), function(x, x * x))
